// SPDX-License-Identifier: Apache-2.0
#include "bench/output.h"

#include "bench/json_line.h"
#include "bench/workload.h"

#include <algorithm>
#include <cstdarg>
#include <functional>
#include <ranges>
#include <unistd.h>
#include <utility>
#include <vector>

namespace viaduct::bench {
namespace {

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
    std::va_list arguments;
    va_start(arguments, pattern);
    char text[256];
    const int bytes = std::vsnprintf(text, sizeof text, pattern, arguments);
    va_end(arguments);
    return {text, static_cast<std::size_t>(std::clamp<int>(bytes, 0, sizeof text - 1))};
}

double us(double ns) {
    return ns / 1000;
}

const char* word_of(driver::Completion completion) {
    switch (completion) {
    case driver::Completion::poll:
        return "poll";
    case driver::Completion::wait:
        return "wait";
    case driver::Completion::threads:
        return "threads";
    }
    return "";
}

const char* word_of(driver::Dispatch dispatch) {
    return dispatch == driver::Dispatch::staged ? "staged" : "direct";
}

// Whether the rows of the plan differ in that.
bool differs(const Plan& plan, const auto& member) {
    return std::ranges::any_of(plan.points, [&](const driver::LoadOptions& load) {
        return std::invoke(member, load) != std::invoke(member, plan.points.front());
    });
}

JsonLine setting(const Server& server, const driver::LoadOptions& load) {
    const auto& ring = server.device().ring_options();
    JsonLine line;
    line.add("server", server.name())
        .add("workload", workload_name(load))
        .add("kind", load.mix.empty() ? driver::name_of(load.kind) : "mix")
        .add("random", load.random)
        .add("block_bytes", load.block_bytes)
        .add("depth", load.depth)
        .add("queues", load.queues)
        .add("threads", load.threads)
        .add("ring", ring.packed ? "packed" : "split")
        .add("event_idx", ring.event_idx)
        .add("indirect", ring.indirect)
        .add("queue_size", ring.size)
        .add("completion", word_of(load.completion))
        .add("dispatch", word_of(load.dispatch))
        .add("affinity", load.affinity)
        .add("queue_by", load.by_cpu ? "cpu" : "thread");
    return line;
}

void add_latency(JsonLine& line, const driver::Latency& latency) {
    line.add("p50_ns", latency.percentile(50))
        .add("p99_ns", latency.percentile(99))
        .add("p999_ns", latency.percentile(99.9))
        .add("max_ns", latency.max());
}

// A column: two lines of head, and what stands in a row.
struct Cell {
    const char* above;
    const char* head;
    int width; // negative: to the left
    std::string text;
};

std::string line_of(const std::vector<Cell>& cells, const auto& text) {
    std::string line;
    for (const Cell& cell : cells) line += format("%*s ", cell.width, std::string{text(cell)}.c_str());
    line.erase(line.find_last_not_of(' ') + 1);
    return line + "\n";
}

std::string latency_text(double ns) {
    return format(ns < 100'000 ? "%.1f" : "%.0f", us(ns));
}

std::vector<Cell> cells_of(const Plan& plan, const std::string& name, const Summary& summary) {
    const driver::LoadOptions& load = summary.load;
    std::vector<Cell> cells;
    if (plan.targets.size() > 1) {
        std::size_t width = 0;
        for (const Target& target : plan.targets) width = std::max(width, target.name.size());
        cells.push_back({"", "device", -static_cast<int>(std::max<std::size_t>(width, 6)), name});
    }
    const auto name_width = [](const driver::LoadOptions& point) { return workload_name(point).size(); };
    const std::size_t width = std::ranges::max(plan.points | std::views::transform(name_width));
    cells.push_back({"", "load", -static_cast<int>(std::max<std::size_t>(width, 12)), workload_name(load)});
    cells.push_back(
        {"threads x", "queues x depth", 14, format("%ux%ux%u", load.threads, load.queues, load.depth)});
    if (differs(plan, &driver::LoadOptions::completion))
        cells.push_back({"comple-", "tion", 7, word_of(load.completion)});
    if (differs(plan, &driver::LoadOptions::dispatch))
        cells.push_back({"dis-", "patch", 6, word_of(load.dispatch)});
    if (differs(plan, &driver::LoadOptions::affinity))
        cells.push_back({"affi-", "nity", 5, load.affinity ? "on" : "off"});
    cells.push_back({"operations", "/s", 10, format("%.0f", summary.operations_per_second.median)});
    cells.push_back({"", "MiB/s", 7, block_of(load) > 0 ? format("%.0f", summary.mib_per_second) : "-"});
    cells.push_back({"", "p50 us", 8, latency_text(static_cast<double>(summary.latency.percentile(50)))});
    cells.push_back({"", "p99", 8, latency_text(static_cast<double>(summary.latency.percentile(99)))});
    cells.push_back({"", "p99.9", 8, latency_text(static_cast<double>(summary.latency.percentile(99.9)))});
    cells.push_back({"", "max", 8, latency_text(static_cast<double>(summary.latency.max()))});
    cells.push_back({"CPU us", "client", 7, format("%.2f", us(summary.client_ns))});
    cells.push_back({"each", "server", 7, format("%.2f", us(summary.server_ns))});
    if (!plan.bare_folder.empty()) {
        const bool bare = summary.bare_ns > 0;
        cells.push_back({"", "bare", 7, bare ? format("%.2f", us(summary.bare_ns)) : "-"});
        cells.push_back({"server /", "bare", 8, bare ? format("%.2f", summary.ratio.median) : "-"});
        cells.push_back({"", "(least..most)", -13,
                         bare ? format("(%.2f..%.2f)", summary.ratio.least, summary.ratio.most) : ""});
    }
    cells.push_back({"kicks", "/request", 8, format("%.3f", summary.kicks_per_request)});
    cells.push_back({"interr.", "/request", 8, format("%.3f", summary.interrupts_per_request)});
    if (plan.locality) {
        cells.push_back({"same", "CPU %", 6, format("%.1f", summary.same_cpu_share * 100)});
        cells.push_back({"CPU", "moves/s", 8, format("%.0f", summary.migrations_per_second)});
        cells.push_back({"switches", "/request", 8, format("%.3f", summary.context_switches_per_request)});
    }
    return cells;
}

} // namespace

std::string table_head(const Plan& plan) {
    const auto cells = cells_of(plan, "", {});
    return line_of(cells, [](const Cell& cell) { return cell.above; }) +
           line_of(cells, [](const Cell& cell) { return cell.head; });
}

std::string table_row(const Plan& plan, const std::string& name, const Summary& summary) {
    std::string text = line_of(cells_of(plan, name, summary), [](const Cell& cell) { return cell.text; });
    if (summary.errors > 0)
        text += "    " + std::to_string(summary.errors) + " errors, the first: " + summary.first_error + "\n";
    if (summary.mismatches > 0)
        text += "    " + std::to_string(summary.mismatches) +
                " blocks or listings were not what they should be\n";
    return text;
}

std::string comparison_text(const std::string& to, const Comparison& comparison) {
    const auto text = [](const Spread& spread) {
        return format("%.2f (%.2f..%.2f)", spread.median, spread.least, spread.most);
    };
    return "    beside " + to + ": operations/s " + text(comparison.rate) + ", server CPU " +
           text(comparison.server_ns) + "\n";
}

std::string run_line(const Server& server, const driver::LoadOptions& load, unsigned number,
                     const Measurement& run) {
    const driver::LoadResult& result = run.result;
    JsonLine line = setting(server, load);
    line.add("run", number)
        .add("operations", result.operations)
        .add("requests", result.requests)
        .add("bytes", result.bytes)
        .add("seconds", result.seconds, 6);
    add_latency(line, result.latency);
    line.add("server_ns", run.server_ns, 1)
        .add("client_ns", share(result.client_cpu_ns, result.operations), 1)
        .add("bare_ns", run.bare_ns, 1)
        .add("ratio", run.ratio(), 3)
        .add("kicks", result.kicks)
        .add("interrupts", result.interrupts)
        .add("parked", result.parked)
        .add("on_submitter_cpu", result.on_submitter_cpu)
        .add("migrations", result.migrations)
        .add("context_switches", result.context_switches)
        .add("errors", result.errors)
        .add("mismatches", result.mismatches);
    return line.text();
}

std::string summary_line(const Server& server, const Summary& summary) {
    JsonLine line = setting(server, summary.load);
    line.add("median", true)
        .add("operations_per_second", summary.operations_per_second.median, 0)
        .add("operations_per_second_min", summary.operations_per_second.least, 0)
        .add("operations_per_second_max", summary.operations_per_second.most, 0)
        .add("mib_per_second", summary.mib_per_second, 1);
    add_latency(line, summary.latency);
    line.add("server_ns", summary.server_ns, 1)
        .add("client_ns", summary.client_ns, 1)
        .add("bare_ns", summary.bare_ns, 1)
        .add("ratio", summary.ratio.median, 3)
        .add("ratio_min", summary.ratio.least, 3)
        .add("ratio_max", summary.ratio.most, 3)
        .add("kicks_per_request", summary.kicks_per_request, 4)
        .add("interrupts_per_request", summary.interrupts_per_request, 4)
        .add("same_cpu_share", summary.same_cpu_share, 4)
        .add("migrations_per_second", summary.migrations_per_second, 1)
        .add("context_switches_per_request", summary.context_switches_per_request, 4)
        .add("errors", summary.errors)
        .add("first_error", summary.first_error)
        .add("mismatches", summary.mismatches);
    return line.text();
}

std::string comparison_line(const Server& server, const driver::LoadOptions& load, const std::string& to,
                            const Comparison& comparison) {
    JsonLine line = setting(server, load);
    line.add("comparison", true).add("beside", to);
    for (const auto& [name, spread] :
         {std::pair{"rate", comparison.rate}, std::pair{"server_cpu", comparison.server_ns}}) {
        const std::string key = std::string{name} + "_ratio";
        line.add(key, spread.median, 3).add(key + "_min", spread.least, 3).add(key + "_max", spread.most, 3);
    }
    return line.text();
}

Outcome<std::unique_ptr<Output>> Output::open(const Plan& plan) {
    std::unique_ptr<Output> output{new Output{plan}};
    if (plan.json == "-") {
        output->json_ = stdout;
    } else if (!plan.json.empty()) {
        output->json_file_.reset(std::fopen(plan.json.c_str(), "ae"));
        if (!output->json_file_) return failure("--json " + plan.json, Errno{errno});
        output->json_ = output->json_file_.get();
    }
    return output;
}

void Output::clear_progress() {
    if (!progress_shown_) return;
    std::fputs("\r\033[K", stderr);
    progress_shown_ = false;
}

void Output::note(const std::string& text) {
    clear_progress();
    std::fprintf(stderr, "viaduct bench: %s\n", text.c_str());
}

void Output::progress(unsigned done, unsigned total, const std::string& what) {
    if (::isatty(STDERR_FILENO) == 0) return;
    clear_progress();
    std::string left;
    if (done > 0) {
        const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start_;
        left = format(", %.0f s left", passed.count() / done * (total - done));
    }
    std::fprintf(stderr, "run %u of %u: %s%s", done + 1, total, what.c_str(), left.c_str());
    std::fflush(stderr);
    progress_shown_ = true;
}

void Output::print_json(const std::string& line) {
    std::fputs(line.c_str(), json_);
    std::fflush(json_);
}

void Output::run(const Server& server, const driver::LoadOptions& load, unsigned number,
                 const Measurement& measured) {
    clear_progress();
    if (json_ != nullptr) print_json(run_line(server, load, number, measured));
}

void Output::row(const Server& server, const Summary& summary) {
    clear_progress();
    if (json_ != nullptr) print_json(summary_line(server, summary));
    if (json_ == stdout) return;
    if (!head_printed_) std::fputs(table_head(plan_).c_str(), stdout);
    head_printed_ = true;
    std::fputs(table_row(plan_, server.name(), summary).c_str(), stdout);
    std::fflush(stdout);
}

void Output::comparison(const Server& server, const driver::LoadOptions& load, const std::string& to,
                        const Comparison& compared) {
    if (json_ != nullptr) print_json(comparison_line(server, load, to, compared));
    if (json_ == stdout) return;
    std::fputs(comparison_text(to, compared).c_str(), stdout);
    std::fflush(stdout);
}

} // namespace viaduct::bench
