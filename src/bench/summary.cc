// SPDX-License-Identifier: Apache-2.0
#include "bench/summary.h"

#include <algorithm>

namespace viaduct::bench {
namespace {

template <class Value> Spread spread(const std::vector<Measurement>& runs, const Value& value) {
    std::vector<double> values;
    values.reserve(runs.size());
    for (const Measurement& run : runs) values.push_back(value(run));
    return spread_of(std::move(values));
}

} // namespace

Spread spread_of(std::vector<double> values) {
    if (values.empty()) return {};
    std::ranges::sort(values);
    const std::size_t middle = values.size() / 2;
    const double median = values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
    return {.median = median, .least = values.front(), .most = values.back()};
}

double share(std::uint64_t of, std::uint64_t each) {
    return each == 0 ? 0 : static_cast<double>(of) / static_cast<double>(each);
}

Summary summarize(const driver::LoadOptions& load, const std::vector<Measurement>& runs) {
    const auto median = [&](const auto& value) { return spread(runs, value).median; };
    Summary summary{.load = load};
    summary.runs = static_cast<unsigned>(runs.size());
    summary.operations_per_second =
        spread(runs, [](const Measurement& run) { return run.operations_per_second(); });
    summary.mib_per_second = median([](const Measurement& run) {
        return run.result.seconds > 0 ? static_cast<double>(run.result.bytes) / run.result.seconds / (1 << 20)
                                      : 0;
    });
    summary.server_ns = median([](const Measurement& run) { return run.server_ns; });
    summary.client_ns =
        median([](const Measurement& run) { return share(run.result.client_cpu_ns, run.result.operations); });
    summary.bare_ns = median([](const Measurement& run) { return run.bare_ns; });
    summary.ratio = spread(runs, [](const Measurement& run) { return run.ratio(); });
    summary.kicks_per_request =
        median([](const Measurement& run) { return share(run.result.kicks, run.result.requests); });
    summary.interrupts_per_request =
        median([](const Measurement& run) { return share(run.result.interrupts, run.result.requests); });
    summary.same_cpu_share = median(
        [](const Measurement& run) { return share(run.result.on_submitter_cpu, run.result.requests); });
    summary.migrations_per_second = median([](const Measurement& run) {
        return run.result.seconds > 0 ? static_cast<double>(run.result.migrations) / run.result.seconds : 0;
    });
    summary.context_switches_per_request = median(
        [](const Measurement& run) { return share(run.result.context_switches, run.result.requests); });
    for (const Measurement& run : runs) {
        summary.latency.merge(run.result.latency);
        summary.operations += run.result.operations;
        summary.mismatches += run.result.mismatches;
        summary.errors += run.result.errors;
        if (summary.first_error.empty()) summary.first_error = run.result.first_error;
    }
    return summary;
}

Comparison compare(const std::vector<Measurement>& runs, const std::vector<Measurement>& beside) {
    const auto ratio = [](double value, double to) { return to > 0 ? value / to : 0; };
    std::vector<double> rates;
    std::vector<double> costs;
    for (std::size_t round = 0; round < std::min(runs.size(), beside.size()); ++round) {
        rates.push_back(ratio(runs[round].operations_per_second(), beside[round].operations_per_second()));
        costs.push_back(ratio(runs[round].server_ns, beside[round].server_ns));
    }
    return {.rate = spread_of(std::move(rates)), .server_ns = spread_of(std::move(costs))};
}

} // namespace viaduct::bench
