// SPDX-License-Identifier: Apache-2.0
#include "bench/report_plots.h"

#include "bench/latency_plots.h"
#include "bench/settings.h"
#include "bench/svg.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace viaduct::bench {
namespace {

// What a plot shows of a point.
struct Figure {
    std::string id;    // "rate"
    std::string title; // "Throughput"
    std::string unit;  // "operations per second"; before it stands the prefix
    double ReportPoint::* value;
    double ReportPoint::* least;
    double ReportPoint::* most;
    std::function<Scale(double)> scale;
    std::function<std::string(double)> text;
    double ReportPoint::* reference = nullptr; // a line for comparison
};

const std::vector<Figure>& figures() {
    static const std::vector<Figure> all{
        {.id = "rate",
         .title = "Throughput",
         .unit = "operations per second",
         .value = &ReportPoint::operations_per_second,
         .least = &ReportPoint::operations_per_second_min,
         .most = &ReportPoint::operations_per_second_max,
         .scale = count_scale,
         .text = count_text},
        {.id = "cpu",
         .title = "Server CPU",
         .unit = "CPU time of an operation",
         .value = &ReportPoint::server_ns,
         .least = nullptr,
         .most = nullptr,
         .scale = time_scale,
         .text = time_text,
         .reference = &ReportPoint::bare_ns},
    };
    return all;
}

double value_of(const ReportPoint& point, double ReportPoint::* member) {
    return member == nullptr ? kNoFigure : point.*member;
}

std::size_t style_of(const std::string& server, std::span<const std::string> servers) {
    return static_cast<std::size_t>(std::ranges::find(servers, server) - servers.begin());
}

PlotAxis value_axis(const Figure& figure, double most) {
    const std::vector<double> ticks = linear_ticks(most, 5);
    const Scale scale = figure.scale(ticks.back());
    const double step = (ticks[1] - ticks[0]) / scale.factor;
    const int decimals = step >= 0.999 ? 0 : step >= 0.0999 ? 1 : 2;
    PlotAxis axis{.title = figure.unit + (scale.unit.empty() ? "" : ", " + scale.unit)};
    for (const double tick : ticks)
        axis.ticks.push_back({.value = tick, .label = fixed(tick / scale.factor, decimals)});
    return axis;
}

// The largest value that is drawn, with whiskers and references.
double most_of(const Figure& figure, std::span<const ReportPoint> points) {
    double most = 0;
    for (const ReportPoint& point : points) {
        for (const auto member : {figure.value, figure.most, figure.reference}) {
            const double value = value_of(point, member);
            if (std::isfinite(value)) most = std::max(most, value);
        }
    }
    return most;
}

bool measured(const Figure& figure, std::span<const ReportPoint> points) {
    return std::ranges::any_of(points, [&](const auto& point) { return std::isfinite(point.*figure.value); });
}

Table table_of(const Figure& figure, const std::string& caption, const std::string& varied,
               std::span<const ReportPoint> points,
               const std::function<std::string(const ReportPoint&)>& setting) {
    Table table{.caption = caption,
                .head = {"Server", varied, figure.title, "Least", "Most", "Bare call"},
                .rows = {}};
    for (const ReportPoint& point : points) {
        table.rows.push_back({point.server, setting(point), figure.text(point.*figure.value),
                              figure.text(value_of(point, figure.least)),
                              figure.text(value_of(point, figure.most)),
                              figure.text(value_of(point, figure.reference))});
    }
    return table;
}

// A tick for each value that occurs; by powers where they are.
PlotAxis setting_axis(Setting setting, std::span<const ReportPoint> points) {
    PlotAxis axis{.title = name_of(setting)};
    for (const std::uint32_t value : values_of(setting, points))
        axis.ticks.push_back({.value = static_cast<double>(value), .label = std::to_string(value)});
    axis.logarithmic =
        axis.ticks.front().value >= 1 && axis.ticks.back().value >= 4 * axis.ticks.front().value;
    return axis;
}

std::string hover_of(const Figure& figure, const ReportPoint& point) {
    return point.server + ", " + setting_text(point) + ": " + figure.text(point.*figure.value);
}

PlotSeries series_of(const Figure& figure, Setting varied, const std::string& server, std::size_t style,
                     std::span<const ReportPoint> points) {
    PlotSeries series{.name = server, .style = style, .points = {}};
    for (const ReportPoint& point : points) {
        if (point.server != server) continue;
        series.points.push_back({.x = static_cast<double>(value_of(varied, point)),
                                 .y = point.*figure.value,
                                 .least = value_of(point, figure.least),
                                 .most = value_of(point, figure.most),
                                 .hover = hover_of(figure, point)});
    }
    std::ranges::sort(series.points, {}, &PlotPoint::x);
    return series;
}

// At each place the mean of what the servers' runs found: it is the same call for all.
PlotSeries reference_of(const Figure& figure, Setting varied, std::span<const ReportPoint> points) {
    PlotSeries series{.name = "bare call", .style = 0, .points = {}, .reference = true};
    for (const std::uint32_t place : values_of(varied, points)) {
        double sum = 0;
        int count = 0;
        for (const ReportPoint& point : points) {
            const double value = value_of(point, figure.reference);
            if (value_of(varied, point) != place || !std::isfinite(value)) continue;
            sum += value;
            ++count;
        }
        if (count > 0) series.points.push_back({.x = static_cast<double>(place), .y = sum / count});
    }
    return series;
}

ReportPlot line_plot(const std::string& id, const Figure& figure, Setting varied, const Panel& panel,
                     const PlotAxis& x, const PlotAxis& y, std::span<const std::string> servers) {
    LinePlot plot{.id = id,
                  .title = figure.title + " over " + name_of(varied) +
                           (panel.name.empty() ? "" : ": " + panel.name),
                  .x = x,
                  .y = y,
                  .series = {}};
    plot.description = plot.title + ", for " + std::to_string(servers_of(panel.points).size()) +
                       " servers. The table beside it has the figures.";
    for (const std::string& server : servers_of(panel.points))
        plot.series.push_back(series_of(figure, varied, server, style_of(server, servers), panel.points));
    if (PlotSeries reference = reference_of(figure, varied, panel.points); !reference.points.empty())
        plot.series.push_back(std::move(reference));
    const auto setting = [varied](const ReportPoint& point) {
        return std::to_string(value_of(varied, point));
    };
    return {.svg = svg_of(plot),
            .table = table_of(figure, plot.title, heading_of(varied), panel.points, setting)};
}

PlotBar bar_of(const ReportPoint& point, double value, double least, double most, const std::string& label,
               std::span<const std::string> servers) {
    return {.name = point.server,
            .style = style_of(point.server, servers),
            .value = value,
            .least = least,
            .most = most,
            .label = label,
            .hover = point.server + ", " + point.load + ", " + setting_text(point) + ": " + label};
}

// Where nothing was varied: a bar for each server.
ReportPlot bar_plot(const std::string& id, const Figure& figure, std::span<const ReportPoint> points,
                    std::span<const std::string> servers) {
    BarPlot plot{.id = id,
                 .title = figure.title + ": " + setting_text(points.front()),
                 .values = value_axis(figure, most_of(figure, points)),
                 .groups = {{}}};
    plot.description = plot.title + ". The table beside it has the figures.";
    for (const ReportPoint& point : points) {
        plot.groups.front().bars.push_back(bar_of(point, point.*figure.value, value_of(point, figure.least),
                                                  value_of(point, figure.most),
                                                  figure.text(point.*figure.value), servers));
        if (const double reference = value_of(point, figure.reference); std::isfinite(reference)) {
            plot.reference = reference;
            plot.reference_name = "bare call";
        }
    }
    // All have the one in the title; a column of dashes is left out.
    const auto no_setting = [](const ReportPoint&) { return fixed(kNoFigure, 0); };
    return {.svg = svg_of(plot), .table = table_of(figure, plot.title, "Setting", points, no_setting)};
}

void add_figure(std::vector<ReportPlot>& plots, const std::string& id, const Figure& figure,
                std::span<const ReportPoint> points, std::span<const std::string> servers) {
    if (!measured(figure, points)) return;
    const Setting varied = most_varied(points);
    const std::string plot_id = id + "-" + figure.id;
    if (values_of(varied, points).size() < 2) {
        plots.push_back(bar_plot(plot_id, figure, points, servers));
        return;
    }
    // The same axes for all panels, so that they can be compared.
    const PlotAxis x = setting_axis(varied, points);
    const PlotAxis y = value_axis(figure, most_of(figure, points));
    int number = 0;
    for (const Panel& panel : panels_of(varied, points))
        plots.push_back(
            line_plot(plot_id + "-" + std::to_string(number++), figure, varied, panel, x, y, servers));
}

} // namespace

std::vector<std::string> servers_of(std::span<const ReportPoint> points) {
    std::vector<std::string> servers;
    for (const ReportPoint& point : points) {
        if (std::ranges::find(servers, point.server) == servers.end()) servers.push_back(point.server);
    }
    return servers;
}

std::vector<ReportPlot> ratio_plots(std::span<const ReportPoint> points) {
    const std::vector<std::string> servers = servers_of(points);
    BarPlot plot{.id = "ratio",
                 .title = "Server CPU of an operation, as a ratio to the bare call",
                 .description =
                     "The bare call is the same work done locally by one thread. The table beside it "
                     "has the figures.",
                 .groups = {},
                 .reference = 1,
                 .reference_name = "bare call"};
    Table table{.caption = plot.title,
                .head = {"Load", "Server", "Ratio", "Least", "Most"},
                .rows = {},
                .text_columns = 2};
    double most = 1;
    for (const ReportPoint& point : points) {
        if (!std::isfinite(point.ratio)) continue;
        const std::string setting = varying_text(point, points);
        const std::string name = setting.empty() ? point.load : point.load + ", " + setting;
        auto group = std::ranges::find(plot.groups, name, &BarGroup::name);
        if (group == plot.groups.end()) group = plot.groups.insert(group, {.name = name, .bars = {}});
        group->bars.push_back(
            bar_of(point, point.ratio, point.ratio_min, point.ratio_max, fixed(point.ratio, 2), servers));
        most = std::max(most, point.ratio);
        if (std::isfinite(point.ratio_max)) most = std::max(most, point.ratio_max);
    }
    for (const BarGroup& group : plot.groups) {
        for (const PlotBar& bar : group.bars)
            table.rows.push_back({group.name, bar.name, bar.label, fixed(bar.least, 2), fixed(bar.most, 2)});
    }
    if (plot.groups.empty()) return {};
    plot.values = value_axis({.unit = "times the bare call", .scale = [](double) { return Scale{}; }}, most);
    return {{.svg = svg_of(plot), .table = std::move(table)}};
}

std::vector<ReportPlot> load_plots(const std::string& id, std::span<const ReportPoint> points,
                                   std::span<const std::string> servers) {
    std::vector<ReportPlot> plots;
    for (const Figure& figure : figures()) add_figure(plots, id, figure, points, servers);
    add_latency_plots(plots, id, points, servers);
    return plots;
}

} // namespace viaduct::bench
