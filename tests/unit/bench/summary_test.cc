// SPDX-License-Identifier: Apache-2.0
#include "bench/summary.h"

#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

Measurement run_of(std::uint64_t operations, double server_ns, double bare_ns) {
    Measurement run;
    run.result.operations = operations;
    run.result.requests = 2 * operations;
    run.result.bytes = operations << 20;
    run.result.seconds = 2;
    run.result.client_cpu_ns = 500 * operations;
    run.result.kicks = operations;
    run.result.on_submitter_cpu = operations;
    run.result.migrations = 6;
    run.server_ns = server_ns;
    run.bare_ns = bare_ns;
    return run;
}

TEST(Summary, is_made_of_medians_and_of_the_median_of_ratios) {
    // Ratios 3, 1 and 2: the median is not that of the medians, 2000 / 500.
    const auto summary =
        summarize({}, {run_of(100, 3000, 1000), run_of(300, 500, 500), run_of(200, 2000, 1000)});
    EXPECT_DOUBLE_EQ(summary.operations_per_second.median, 100);
    EXPECT_DOUBLE_EQ(summary.operations_per_second.least, 50);
    EXPECT_DOUBLE_EQ(summary.operations_per_second.most, 150);
    EXPECT_DOUBLE_EQ(summary.mib_per_second, 100);
    EXPECT_DOUBLE_EQ(summary.server_ns, 2000);
    EXPECT_DOUBLE_EQ(summary.client_ns, 500);
    EXPECT_DOUBLE_EQ(summary.bare_ns, 1000);
    EXPECT_DOUBLE_EQ(summary.ratio.median, 2);
    EXPECT_DOUBLE_EQ(summary.ratio.least, 1);
    EXPECT_DOUBLE_EQ(summary.ratio.most, 3);
    EXPECT_DOUBLE_EQ(summary.kicks_per_request, 0.5);
    EXPECT_DOUBLE_EQ(summary.same_cpu_share, 0.5);
    EXPECT_DOUBLE_EQ(summary.migrations_per_second, 3);
    EXPECT_EQ(summary.operations, 600U);
    EXPECT_TRUE(summary.good());
}

TEST(Summary, has_the_latencies_and_mistakes_of_all_runs) {
    std::vector<Measurement> runs{run_of(1, 1, 0), run_of(1, 1, 0)};
    runs[0].result.latency.record(1000);
    runs[1].result.latency.record(500'000);
    runs[1].result.errors = 2;
    runs[1].result.first_error = "READ: EIO";
    runs[0].result.mismatches = 1;
    const auto summary = summarize({}, runs);
    EXPECT_EQ(summary.latency.count(), 2U);
    EXPECT_EQ(summary.latency.max(), 500'000U);
    EXPECT_EQ(summary.errors, 2U);
    EXPECT_EQ(summary.first_error, "READ: EIO");
    EXPECT_EQ(summary.mismatches, 1U);
    EXPECT_FALSE(summary.good());
    EXPECT_DOUBLE_EQ(summary.ratio.median, 0) << "the bare call was not measured";
}

TEST(Summary, of_nothing_is_nothing) {
    const auto summary = summarize({}, {});
    EXPECT_DOUBLE_EQ(summary.operations_per_second.median, 0);
    EXPECT_EQ(summary.operations, 0U);
    const auto still = summarize({}, {Measurement{}});
    EXPECT_DOUBLE_EQ(still.client_ns, 0);
    EXPECT_DOUBLE_EQ(still.operations_per_second.most, 0);
}

TEST(Summary, an_even_number_of_runs_has_its_median_in_between) {
    EXPECT_DOUBLE_EQ(spread_of({4, 1, 3, 2}).median, 2.5);
}

TEST(Comparison, is_made_round_by_round) {
    const std::vector<Measurement> ours{run_of(100, 1000, 0), run_of(100, 1000, 0), run_of(400, 1000, 0)};
    const std::vector<Measurement> theirs{run_of(50, 3000, 0), run_of(100, 1000, 0), run_of(100, 2000, 0),
                                          run_of(1, 1, 0)};
    const auto compared = compare(theirs, ours);
    EXPECT_DOUBLE_EQ(compared.rate.median, 0.5);
    EXPECT_DOUBLE_EQ(compared.rate.least, 0.25);
    EXPECT_DOUBLE_EQ(compared.rate.most, 1);
    EXPECT_DOUBLE_EQ(compared.server_ns.median, 2);
    EXPECT_DOUBLE_EQ(compared.server_ns.most, 3);
}

} // namespace
} // namespace viaduct::bench
