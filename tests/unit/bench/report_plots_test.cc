// SPDX-License-Identifier: Apache-2.0
#include "bench/report_plots.h"

#include "bench/latency_plots.h"
#include "bench/settings.h"
#include "well_formed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace viaduct::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct Load {
    std::uint32_t queues = 1;
    std::uint32_t threads = 1;
};

ReportPoint point(const std::string& server, Load load = {}) {
    return {.server = server,
            .load = "read 4 KiB",
            .queues = load.queues,
            .threads = load.threads,
            .depth = 32,
            .operations_per_second = 500'000.0 * load.queues,
            .server_ns = 1'360};
}

std::vector<ReportPlot> plots_of(const std::vector<ReportPoint>& points) {
    auto plots = load_plots("load0", points, servers_of(points));
    for (const ReportPlot& plot : plots) EXPECT_EQ(WellFormed::complaint(plot.svg), "");
    return plots;
}

std::vector<std::string> captions(const std::vector<ReportPlot>& plots) {
    std::vector<std::string> result;
    for (const ReportPlot& plot : plots) result.push_back(plot.table.caption);
    return result;
}

TEST(Settings, the_one_with_the_most_values_is_the_varied_one) {
    EXPECT_EQ(most_varied(std::vector{point("a")}), Setting::queues);
    EXPECT_EQ(most_varied(std::vector{point("a", {1, 1}), point("a", {1, 4})}), Setting::threads);
    EXPECT_EQ(most_varied(std::vector{point("a", {1, 1}), point("a", {2, 2})}), Setting::queues);
}

TEST(Settings, a_text_has_singular_and_plural) {
    EXPECT_EQ(setting_text(point("a", {1, 4})), "1 queue, 4 threads, depth 32");
    EXPECT_EQ(varying_text(point("a", {1, 4}), std::vector{point("a", {1, 1}), point("a", {1, 4})}),
              "4 threads");
    EXPECT_EQ(varying_text(point("a"), std::vector{point("a")}), "");
}

TEST(ReportPlots, one_point_is_a_bar) {
    const auto plots = plots_of({point("a")});
    EXPECT_THAT(captions(plots), ElementsAre("Throughput: 1 queue, 1 thread, depth 32",
                                             "Server CPU: 1 queue, 1 thread, depth 32"));
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, read 4 KiB, 1 queue, 1 thread, depth 32: 500 k</title>"));
}

TEST(ReportPlots, queues_are_an_axis_and_threads_are_panels_with_the_same_axes) {
    const auto plots = plots_of(
        {point("a", {1, 1}), point("a", {2, 1}), point("a", {4, 1}), point("a", {1, 2}), point("a", {4, 2})});
    EXPECT_THAT(captions(plots), ElementsAre("Throughput over queues: 1 thread, depth 32",
                                             "Throughput over queues: 2 threads, depth 32",
                                             "Server CPU over queues: 1 thread, depth 32",
                                             "Server CPU over queues: 2 threads, depth 32"));
    for (const auto& label : {">0.0</text>", ">2.0</text>"}) {
        EXPECT_THAT(plots[0].svg, HasSubstr(label));
        EXPECT_THAT(plots[1].svg, HasSubstr(label));
    }
}

TEST(ReportPlots, what_is_swept_together_is_one_panel) {
    EXPECT_THAT(
        captions(plots_of({point("a", {1, 1}), point("a", {8, 8}), point("b", {1, 1}), point("b", {8, 8})})),
        ElementsAre("Throughput over queues", "Server CPU over queues"));
}

TEST(ReportPlots, ids_are_unique) {
    std::vector<ReportPoint> points;
    for (const std::uint32_t threads : {1U, 2U, 4U}) {
        for (const std::uint32_t queues : {1U, 2U, 4U, 8U}) {
            points.push_back(point("a", {queues, threads}));
            points.back().p50_ns = 1'000;
        }
    }
    std::set<std::string> ids;
    const auto plots = plots_of(points);
    for (const ReportPlot& plot : plots) {
        const auto at = plot.svg.find(" id=\"") + 5;
        ids.insert(plot.svg.substr(at, plot.svg.find('"', at) - at));
    }
    EXPECT_EQ(ids.size(), plots.size());
    EXPECT_EQ(plots.size(), 3 + 3 + kLatencyPanelsMax);
}

TEST(ReportPlots, a_figure_that_nobody_measured_has_no_plot) {
    ReportPoint bare = point("a");
    bare.server_ns = kNotMeasured;
    EXPECT_EQ(plots_of({bare}).size(), 1U);
    bare.operations_per_second = kNotMeasured;
    EXPECT_EQ(plots_of({bare}).size(), 0U);
}

TEST(ReportPlots, zeros_and_gaps_are_drawn) {
    ReportPoint zero = point("a", {1, 1});
    zero.operations_per_second = 0;
    zero.server_ns = 0;
    ReportPoint gap = point("a", {2, 1});
    gap.operations_per_second = kNotMeasured;
    for (const ReportPlot& plot : plots_of({zero, gap, point("b", {0, 1})})) {
        EXPECT_THAT(plot.svg, Not(HasSubstr("nan")));
        EXPECT_THAT(plot.svg, Not(HasSubstr("inf")));
    }
    EXPECT_EQ(plots_of({zero}).size(), 2U);
}

TEST(ReportPlots, a_server_keeps_its_colour_where_others_are_missing) {
    const std::vector all{point("a"), point("b")};
    const auto servers = servers_of(all);
    const auto plots = load_plots("load0", std::span{all}.subspan(1), servers);
    EXPECT_THAT(plots[0].svg, HasSubstr("\"s1 bar\""));
    EXPECT_THAT(plots[0].svg, Not(HasSubstr("\"s0 bar\"")));
}

TEST(ReportPlots, ratios_are_grouped_by_load_and_setting) {
    std::vector points{point("a", {1, 1}), point("b", {1, 1}), point("a", {2, 1}), point("c", {1, 1})};
    for (ReportPoint& each : points) each.ratio = 1.5;
    points[3].ratio = kNotMeasured;
    const auto plots = ratio_plots(points);
    ASSERT_EQ(plots.size(), 1U);
    EXPECT_EQ(WellFormed::complaint(plots[0].svg), "");
    EXPECT_THAT(plots[0].table.rows, ElementsAre(ElementsAre("read 4 KiB, 1 queue", "a", "1.50", "–", "–"),
                                                 ElementsAre("read 4 KiB, 1 queue", "b", "1.50", "–", "–"),
                                                 ElementsAre("read 4 KiB, 2 queues", "a", "1.50", "–", "–")));
    EXPECT_TRUE(ratio_plots(std::span{points}.subspan(3)).empty());
}

TEST(LatencyPlots, without_any_there_is_none) {
    std::vector<ReportPlot> plots;
    add_latency_plots(plots, "l", std::vector{point("a")}, std::vector<std::string>{"a"});
    EXPECT_TRUE(plots.empty());
    ReportPoint empty = point("a");
    empty.latencies = {{.upper_ns = 1'000, .count = 0}};
    add_latency_plots(plots, "l", std::vector{empty}, std::vector<std::string>{"a"});
    EXPECT_TRUE(plots.empty());
}

TEST(LatencyPlots, percentiles_alone_are_marks) {
    ReportPoint some = point("a");
    some.p50_ns = 1'000;
    some.p99_ns = 20'000;
    std::vector<ReportPlot> plots;
    add_latency_plots(plots, "l", std::vector{some}, std::vector<std::string>{"a"});
    ASSERT_EQ(plots.size(), 1U);
    EXPECT_EQ(WellFormed::complaint(plots[0].svg), "");
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 50 %: 1.00 µs</title>"));
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 99 %: 20.0 µs</title>"));
}

TEST(LatencyPlots, buckets_give_the_percentile_in_which_it_falls) {
    ReportPoint some = point("a");
    some.latencies = {{.upper_ns = 1'000, .count = 600},
                      {.upper_ns = 2'000, .count = 350},
                      {.upper_ns = 8'000, .count = 50}};
    std::vector<ReportPlot> plots;
    add_latency_plots(plots, "l", std::vector{some}, std::vector<std::string>{"a"});
    ASSERT_EQ(plots.size(), 1U);
    EXPECT_EQ(WellFormed::complaint(plots[0].svg), "");
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 50 %: 1.00 µs</title>"));
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 90 %: 2.00 µs</title>"));
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 99 %: 8.00 µs</title>"));
    EXPECT_THAT(plots[0].svg, HasSubstr("<title>a, 99.9 %: 8.00 µs</title>"));
    EXPECT_THAT(plots[0].svg, Not(HasSubstr("99.99 %"))); // there were 1000 only
}

TEST(LatencyPlots, one_operation_and_one_of_no_time_are_drawn) {
    ReportPoint some = point("a");
    some.latencies = {{.upper_ns = 0, .count = 1}};
    std::vector<ReportPlot> plots;
    add_latency_plots(plots, "l", std::vector{some}, std::vector<std::string>{"a"});
    ASSERT_EQ(plots.size(), 1U);
    EXPECT_EQ(WellFormed::complaint(plots[0].svg), "");
}

} // namespace
} // namespace viaduct::bench
