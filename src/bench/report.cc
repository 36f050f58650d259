// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include "bench/markup.h"
#include "bench/report_plots.h"
#include "bench/report_style.h"
#include "bench/table.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

namespace viaduct::bench {
namespace {

std::string share_text(double share) {
    return std::isfinite(share) ? three_digits(100 * share) + " %" : fixed(kNoFigure, 0);
}

// "1.36 (1.19 to 1.40)".
std::string spread_text(double value, double least, double most) {
    std::string text = fixed(value, 2);
    if (std::isfinite(least) && std::isfinite(most))
        text += " (" + fixed(least, 2) + " to " + fixed(most, 2) + ")";
    return text;
}

std::string rate_spread_text(const ReportPoint& point) {
    if (!std::isfinite(point.operations_per_second_min) || !std::isfinite(point.operations_per_second_max))
        return fixed(kNoFigure, 0);
    return count_text(point.operations_per_second_min) + " to " + count_text(point.operations_per_second_max);
}

Table figures_of(const std::string& caption, std::span<const ReportPoint> points) {
    Table table{.caption = caption,
                .head = {"Server",
                         "Queues",
                         "Threads",
                         "Depth",
                         "Operations/s",
                         "(least to most)",
                         "MiB/s",
                         "Server CPU",
                         "Bare call",
                         "Ratio (least to most)",
                         "Client CPU",
                         "p50",
                         "p99",
                         "p99.9",
                         "Max",
                         "Kicks/request",
                         "Interrupts/request",
                         "On the same CPU",
                         "Migrations/s",
                         "Runs",
                         "Errors",
                         "Mismatches"},
                .rows = {}};
    const auto count = [](std::uint64_t number) {
        return number == 0 ? fixed(kNoFigure, 0) : std::to_string(number);
    };
    for (const ReportPoint& point : points) {
        table.rows.push_back({point.server,
                              std::to_string(point.queues),
                              std::to_string(point.threads),
                              std::to_string(point.depth),
                              count_text(point.operations_per_second),
                              rate_spread_text(point),
                              three_digits(point.mib_per_second),
                              time_text(point.server_ns),
                              time_text(point.bare_ns),
                              spread_text(point.ratio, point.ratio_min, point.ratio_max),
                              time_text(point.client_ns),
                              time_text(point.p50_ns),
                              time_text(point.p99_ns),
                              time_text(point.p999_ns),
                              time_text(point.max_ns),
                              fixed(point.kicks_per_request, 4),
                              fixed(point.interrupts_per_request, 4),
                              share_text(point.same_cpu_share),
                              three_digits(point.cpu_migrations),
                              std::to_string(point.runs),
                              count(point.errors),
                              count(point.mismatches)});
    }
    return table;
}

std::string header_markup(const ReportHeader& header) {
    std::string result = element("h1", header.title) + "\n<dl>\n";
    const auto row = [&](const std::string& name, const std::string& value, const char* tag) {
        if (!value.empty()) result += element("dt", name) + "<dd>" + element(tag, value) + "</dd>\n";
    };
    row("Command", header.command, "code");
    row("Machine", header.machine, "span");
    row("Kernel", header.kernel, "span");
    row("CPUs", header.cpus, "span");
    row("Date", header.date, "span");
    for (const auto& [name, value] : header.others) row(name, value, "span");
    result += "</dl>\n";
    for (const std::string& note : header.notes) result += element("p", note) + "\n";
    return result;
}

// In the order of their first appearance.
std::vector<std::string> loads_of(std::span<const ReportPoint> points) {
    std::vector<std::string> loads;
    for (const ReportPoint& point : points) {
        if (std::ranges::find(loads, point.load) == loads.end()) loads.push_back(point.load);
    }
    return loads;
}

std::string markup_of(std::span<const ReportPlot> plots) {
    std::string result;
    for (const ReportPlot& plot : plots)
        result +=
            "<div class=\"pair\"><figure>\n" + plot.svg + "</figure>\n" + markup_of(plot.table) + "</div>\n";
    return result;
}

std::string section(std::size_t number, const std::string& load, std::span<const ReportPoint> all) {
    std::vector<ReportPoint> points;
    for (const ReportPoint& point : all) {
        if (point.load == load) points.push_back(point);
    }
    return "<section>\n" + element("h2", load) + "\n" +
           markup_of(load_plots("load" + std::to_string(number), points, servers_of(all))) +
           "<details>\n<summary>All figures</summary>\n" +
           markup_of(figures_of("All figures: " + load, points)) + "</details>\n</section>\n";
}

} // namespace

std::string report_page(const ReportHeader& header, std::span<const ReportPoint> points) {
    std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                       "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                       "<meta name=\"color-scheme\" content=\"light dark\">\n" +
                       element("title", header.title) + "\n<style>\n" + kReportStyle +
                       "</style>\n</head>\n<body>\n<main>\n" + header_markup(header);
    if (points.empty()) page += element("p", "Nothing was measured.") + "\n";
    if (const auto ratios = ratio_plots(points); !ratios.empty())
        page +=
            "<section>\n" + element("h2", "Beside the bare call") + "\n" + markup_of(ratios) + "</section>\n";
    std::size_t number = 0;
    for (const std::string& load : loads_of(points)) page += section(number++, load, points);
    return page + "</main>\n</body>\n</html>\n";
}

Outcome<void> write_report(const std::string& path, const ReportHeader& header,
                           std::span<const ReportPoint> points) {
    const std::string page = report_page(header, points);
    const auto close = [](std::FILE* file) { std::fclose(file); };
    std::unique_ptr<std::FILE, decltype(close)> file{std::fopen(path.c_str(), "we"), close};
    if (!file) return failure("cannot write the report " + path, Errno{errno});
    if (std::fwrite(page.data(), 1, page.size(), file.get()) != page.size() || std::fflush(file.get()) != 0)
        return failure("cannot write the report " + path, Errno{errno});
    return {};
}

} // namespace viaduct::bench
