// SPDX-License-Identifier: Apache-2.0
#include "load_report.h"

#include <algorithm>

namespace viaduct::bench {
namespace {

template <class Value> double median_of(const std::vector<Measurement>& runs, const Value& value) {
    std::vector<double> values;
    for (const Measurement& run : runs) values.push_back(value(run));
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

double per(std::uint64_t what, std::uint64_t each) {
    return each == 0 ? 0 : static_cast<double>(what) / static_cast<double>(each);
}

std::string label_of(const driver::LoadOptions& load) {
    std::string label = driver::name_of(load.kind);
    if (load.kind != driver::LoadKind::read && load.kind != driver::LoadKind::write) return label;
    const std::uint32_t bytes = load.block_bytes;
    if (bytes % (1U << 20) == 0) return label + " " + std::to_string(bytes >> 20) + " MiB";
    if (bytes % (1U << 10) == 0) return label + " " + std::to_string(bytes >> 10) + " KiB";
    return label + " " + std::to_string(bytes) + " B";
}

// What a run was made with; an object left open.
void print_setting(std::FILE* to, const std::string& name, const driver::Device& device,
                   const driver::LoadOptions& load) {
    const auto& ring = device.ring_options();
    std::fprintf(to,
                 R"({"server":"%s","kind":"%s","block_bytes":%u,"depth":%u,"queues":%u,"threads":%u,)"
                 R"("ring":"%s","event_idx":%s,"indirect":%s,"queue_size":%u,"completions":"%s",)",
                 name.c_str(), driver::name_of(load.kind), load.block_bytes, load.depth, load.queues,
                 load.threads, ring.packed ? "packed" : "split", ring.event_idx ? "true" : "false",
                 ring.indirect ? "true" : "false", ring.size,
                 load.completion == driver::Completion::poll ? "polled for" : "waited for");
}

} // namespace

Summary summarize(const driver::LoadOptions& load, const std::vector<Measurement>& runs) {
    const auto median = [&](const auto& value) { return median_of(runs, value); };
    Summary summary{.load = load};
    summary.operations_per_second = median([](const Measurement& run) {
        return static_cast<double>(run.result.operations) / run.result.seconds;
    });
    summary.mib_per_second = median([](const Measurement& run) {
        return static_cast<double>(run.result.bytes) / run.result.seconds / (1 << 20);
    });
    summary.server_ns = median([](const Measurement& run) { return run.server_ns; });
    summary.client_ns =
        median([](const Measurement& run) { return per(run.result.client_cpu_ns, run.result.operations); });
    summary.bare_ns = median([](const Measurement& run) { return run.bare_ns; });
    summary.ratio = median([](const Measurement& run) { return run.ratio(); });
    const auto [least, most] = std::ranges::minmax(runs, {}, &Measurement::ratio);
    summary.ratio_min = least.ratio();
    summary.ratio_max = most.ratio();
    summary.kicks_per_request =
        median([](const Measurement& run) { return per(run.result.kicks, run.result.requests); });
    summary.interrupts_per_request =
        median([](const Measurement& run) { return per(run.result.interrupts, run.result.requests); });
    for (const Measurement& run : runs) {
        summary.operations += run.result.operations;
        summary.mismatches += run.result.mismatches;
        summary.errors += run.result.errors;
        if (summary.first_error.empty()) summary.first_error = run.result.first_error;
    }
    return summary;
}

void print_run(std::FILE* to, const std::string& name, const driver::Device& device,
               const driver::LoadOptions& load, int number, const Measurement& run) {
    const driver::LoadResult& result = run.result;
    print_setting(to, name, device, load);
    std::fprintf(
        to,
        R"("run":%d,"operations":%lu,"requests":%lu,"seconds":%.6f,"server_ns":%.1f,"client_ns":%.1f,)"
        R"("bare_ns":%.1f,"ratio":%.3f,"kicks":%lu,"interrupts":%lu,"parked":%lu,"errors":%lu,)"
        R"("mismatches":%lu})"
        "\n",
        number, result.operations, result.requests, result.seconds, run.server_ns,
        per(result.client_cpu_ns, result.operations), run.bare_ns, run.ratio(), result.kicks,
        result.interrupts, result.parked, result.errors, result.mismatches);
}

void print_summary(std::FILE* to, const std::string& name, const driver::Device& device,
                   const Summary& summary) {
    print_setting(to, name, device, summary.load);
    std::fprintf(to,
                 R"("median":true,"operations_per_second":%.0f,"mib_per_second":%.1f,"server_ns":%.1f,)"
                 R"("client_ns":%.1f,"bare_ns":%.1f,"ratio":%.3f,"ratio_min":%.3f,"ratio_max":%.3f,)"
                 R"("kicks_per_request":%.4f,"interrupts_per_request":%.4f,"errors":%lu,"mismatches":%lu})"
                 "\n",
                 summary.operations_per_second, summary.mib_per_second, summary.server_ns, summary.client_ns,
                 summary.bare_ns, summary.ratio, summary.ratio_min, summary.ratio_max,
                 summary.kicks_per_request, summary.interrupts_per_request, summary.errors,
                 summary.mismatches);
    std::fflush(to);
}

void print_table_head(std::FILE* to) {
    std::fprintf(to, "%-16s %11s %9s %11s %11s %9s %15s %8s %8s\n", "", "operations", "MiB/s", "server CPU",
                 "bare call", "ratio", "(least..most)", "kicks", "intr.");
    std::fprintf(to, "%-16s %11s %9s %11s %11s %9s %15s %8s %8s\n", "", "per second", "", "ns each",
                 "ns each", "", "", "/request", "/request");
}

void print_table_row(std::FILE* to, const Summary& summary) {
    std::fprintf(to, "%-16s %11.0f %9.1f %11.0f ", label_of(summary.load).c_str(),
                 summary.operations_per_second, summary.mib_per_second, summary.server_ns);
    if (summary.bare_ns > 0) {
        std::fprintf(to, "%11.0f %9.2f %6.2f ..%6.2f ", summary.bare_ns, summary.ratio, summary.ratio_min,
                     summary.ratio_max);
    } else {
        std::fprintf(to, "%11s %9s %15s ", "-", "-", "");
    }
    std::fprintf(to, "%8.4f %8.4f\n", summary.kicks_per_request, summary.interrupts_per_request);
    if (summary.errors > 0)
        std::fprintf(to, "    %lu errors, the first: %s\n", summary.errors, summary.first_error.c_str());
    if (summary.mismatches > 0)
        std::fprintf(to, "    %lu blocks were not what they should be\n", summary.mismatches);
    std::fflush(to);
}

} // namespace viaduct::bench
