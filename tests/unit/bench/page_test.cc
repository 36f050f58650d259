// SPDX-License-Identifier: Apache-2.0
#include "bench/page.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

TEST(Page, a_point_has_what_was_measured_and_no_figure_for_what_was_not) {
    Measurement run;
    run.result.operations = 10;
    run.result.requests = 10;
    run.result.seconds = 1;
    run.result.latency.record(1000);
    const auto point = report_point("ours", summarize({.queues = 4, .threads = 2, .depth = 8}, {run}));
    EXPECT_EQ(point.server, "ours");
    EXPECT_EQ(point.load, "getattr");
    EXPECT_EQ(point.queues, 4U);
    EXPECT_EQ(point.runs, 1U);
    EXPECT_DOUBLE_EQ(point.operations_per_second, 10);
    EXPECT_DOUBLE_EQ(point.max_ns, 1000);
    ASSERT_EQ(point.latencies.size(), 1U);
    EXPECT_EQ(point.latencies[0].count, 1U);
    EXPECT_TRUE(std::isnan(point.ratio)) << "there was no bare call";
    EXPECT_TRUE(std::isnan(point.server_ns)) << "the server used no CPU time";
    EXPECT_TRUE(std::isnan(point.mib_per_second)) << "no data was moved";
}

TEST(Page, ways_of_doing_it_are_told_apart_by_the_name) {
    driver::LoadOptions load{
        .dispatch = driver::Dispatch::staged, .completion = driver::Completion::threads, .affinity = true};
    EXPECT_EQ(report_point("ours", {.load = load}).server, "ours, completion threads, affinity, staged");
}

TEST(Page, the_header_has_the_command_and_the_machine) {
    Plan plan;
    plan.command = "viaduct bench /s";
    plan.targets = {{.name = "/s", .socket = "/s", .pids = {}}};
    plan.points = {{.cpus = {0, 2}}};
    plan.limit.time = std::chrono::seconds{2};
    plan.repetitions = 3;
    const auto header = report_header(plan);
    EXPECT_EQ(header.command, "viaduct bench /s");
    EXPECT_EQ(header.cpus, "load on 0,2");
    EXPECT_THAT(header.machine, testing::HasSubstr("CPUs"));
    EXPECT_THAT(header.kernel, testing::HasSubstr("Linux"));
    EXPECT_EQ(header.others.front().second, "medians of 3 runs of 2s");
}

} // namespace
} // namespace viaduct::bench
