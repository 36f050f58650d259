// SPDX-License-Identifier: Apache-2.0
#include "bench/svg.h"

#include "bench/canvas.h"
#include "well_formed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <regex>

namespace viaduct::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

LinePlot line_plot(std::vector<PlotPoint> points) {
    return {.id = "p",
            .title = "Throughput",
            .description = "of a server",
            .x = {.title = "queues", .ticks = {{1, "1"}, {2, "2"}, {4, "4"}}, .logarithmic = true},
            .y = {.title = "operations", .ticks = {{0, "0"}, {50, "50"}, {100, "100"}}},
            .series = {{.name = "server", .style = 0, .points = std::move(points)}}};
}

BarPlot bar_plot(std::vector<PlotBar> bars) {
    return {.id = "b",
            .title = "Ratio",
            .description = "of a server",
            .values = {.title = "times", .ticks = {{0, "0"}, {1, "1"}, {2, "2"}}},
            .groups = {{.name = "read", .bars = std::move(bars)}},
            .reference = 1,
            .reference_name = "bare call"};
}

std::size_t count(const std::string& text, const std::string& what) {
    std::size_t found = 0;
    for (auto at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
}

TEST(WellFormedCheck, sees_what_is_wrong) {
    EXPECT_EQ(WellFormed::complaint("<a b=\"&lt;\"><c/>x &amp; y</a>\n"), "");
    for (const char* wrong : {"<a>", "<a></b>", "<a b=c></a>", "<a b=\"<\"></a>", "<a>&</a>", "<a>&nbsp;</a>",
                              "<a b=\"1\" b=\"2\"/>", "<a/><a/>", "x", "<a>< </a>", "</a>"})
        EXPECT_NE(WellFormed::complaint(wrong), "") << wrong;
}

TEST(LinePlot, is_well_formed_with_a_title_and_a_mark_for_each_point) {
    const std::string svg = svg_of(line_plot({{.x = 1, .y = 10, .least = 5, .most = 20, .hover = "ten & one"},
                                              {.x = 2, .y = 30},
                                              {.x = 4, .y = 100, .mark = false}}));
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_THAT(svg, HasSubstr(R"(role="img")"));
    EXPECT_THAT(svg, HasSubstr(R"(aria-labelledby="p-title p-text")"));
    EXPECT_THAT(svg, HasSubstr("<title>ten &amp; one</title>"));
    EXPECT_EQ(count(svg, "<circle class=\"mark\""), 3U); // two points and the legend
    EXPECT_EQ(count(svg, "s0 reach"), 3U);               // a whisker with its two ends
    EXPECT_EQ(count(svg, "<polyline"), 1U);
}

TEST(LinePlot, texts_are_escaped) {
    LinePlot plot = line_plot({{.x = 1, .y = 10, .hover = "<&>"}});
    plot.title = plot.description = plot.x.title = plot.y.title = plot.series[0].name = "<script>\"'&\xff";
    plot.x.ticks[0].label = plot.y.ticks[0].label = "<b>";
    const std::string svg = svg_of(plot);
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_THAT(svg, Not(HasSubstr("<script")));
    EXPECT_THAT(svg, Not(HasSubstr("<b>")));
}

TEST(LinePlot, one_point_has_a_mark_and_no_line) {
    const std::string svg = svg_of(line_plot({{.x = 1, .y = 10}}));
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_EQ(count(svg, "<circle class=\"mark\""), 2U);
    EXPECT_EQ(count(svg, "<polyline"), 0U);
}

TEST(LinePlot, one_tick_puts_all_in_the_middle) {
    LinePlot plot = line_plot({{.x = 7, .y = 10}});
    plot.x.ticks = {{7, "7"}};
    const std::string svg = svg_of(plot);
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_EQ(count(svg, "<circle class=\"mark\""), 2U);
    EXPECT_THAT(svg, Not(HasSubstr("–"))); // which a place that is no figure would be
}

TEST(LinePlot, points_without_a_place_are_a_gap) {
    const std::string svg = svg_of(line_plot({{.x = 1, .y = 10},
                                              {.x = 1.5, .y = 20},
                                              {.x = 2, .y = kNaN},
                                              {.x = 3, .y = kInfinity},
                                              {.x = 0, .y = 5}, // has no logarithm
                                              {.x = 3, .y = 20},
                                              {.x = 4, .y = 30, .least = kNaN, .most = 40}}));
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_EQ(count(svg, "<polyline"), 2U);
    EXPECT_EQ(count(svg, "<circle class=\"mark\""), 5U);
    EXPECT_THAT(svg, Not(HasSubstr("reach\"")));
    EXPECT_THAT(svg, Not(HasSubstr("nan")));
    EXPECT_THAT(svg, Not(HasSubstr("inf")));
}

TEST(LinePlot, nothing_to_see_is_said) {
    for (const auto& points : {std::vector<PlotPoint>{}, std::vector<PlotPoint>{{.x = 1, .y = kNaN}}}) {
        const std::string svg = svg_of(line_plot(points));
        EXPECT_EQ(WellFormed::complaint(svg), "");
        EXPECT_THAT(svg, HasSubstr("not measured"));
    }
    LinePlot empty{.id = "e"};
    EXPECT_EQ(WellFormed::complaint(svg_of(empty)), "");
}

TEST(LinePlot, a_zero_is_a_point_on_the_axis) {
    const std::string svg = svg_of(line_plot({{.x = 1, .y = 0}, {.x = 4, .y = 0}}));
    EXPECT_THAT(svg, Not(HasSubstr("not measured")));
    EXPECT_EQ(count(svg, "<circle class=\"mark\""), 3U);
}

TEST(LinePlot, labels_that_meet_are_left_out_but_the_last_is_not) {
    LinePlot plot = line_plot({{.x = 1, .y = 10}});
    plot.x.logarithmic = false;
    plot.x.ticks.clear();
    for (int queues = 1; queues <= 100; ++queues)
        plot.x.ticks.push_back({static_cast<double>(queues), std::to_string(queues) + "q"});
    const std::string svg = svg_of(plot);
    EXPECT_THAT(svg, HasSubstr(">1q<"));
    EXPECT_THAT(svg, HasSubstr(">100q<"));
    EXPECT_THAT(svg, Not(HasSubstr(">99q<")));
    EXPECT_LT(count(svg, "q</text>"), 20U);
}

TEST(LinePlot, all_places_are_within_the_picture) {
    LinePlot plot = line_plot({{.x = -5, .y = 1e12}, {.x = 4, .y = -10}, {.x = 1e12, .y = 10}});
    plot.x.logarithmic = false;
    const std::string svg = svg_of(plot);
    std::smatch box;
    ASSERT_TRUE(std::regex_search(svg, box, std::regex{R"re(viewBox="0 0 (\d+) (\d+)")re"}));
    const std::regex place{R"(translate\(([-\d.]+) ([-\d.]+)\))"};
    int places = 0;
    for (std::sregex_iterator at{svg.begin(), svg.end(), place}; at != std::sregex_iterator{};
         ++at, ++places) {
        EXPECT_GE(std::stod((*at)[1]), 0);
        EXPECT_LE(std::stod((*at)[1]), std::stod(box[1]));
        EXPECT_GE(std::stod((*at)[2]), 0);
        EXPECT_LE(std::stod((*at)[2]), std::stod(box[2]));
    }
    EXPECT_EQ(places, 4);
}

TEST(BarPlot, is_well_formed_with_bars_whiskers_and_the_reference) {
    const std::string svg =
        svg_of(bar_plot({{.name = "ours", .style = 0, .value = 1.2, .least = 1, .most = 1.5, .label = "1.20"},
                         {.name = "other <", .style = 1, .value = 0, .label = "0.00", .hover = "a & b"}}));
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_EQ(count(svg, "bar\"><"), 2U);
    EXPECT_EQ(count(svg, "class=\"whisker\""), 3U);
    EXPECT_EQ(count(svg, "class=\"reference\""), 2U); // the line and the legend
    EXPECT_THAT(svg, HasSubstr("<title>a &amp; b</title>"));
}

TEST(BarPlot, what_was_not_measured_is_said) {
    const std::string svg = svg_of(bar_plot({{.name = "ours", .style = 0, .value = kNaN, .label = "–"}}));
    EXPECT_EQ(WellFormed::complaint(svg), "");
    EXPECT_THAT(svg, HasSubstr("not measured"));
    EXPECT_EQ(count(svg, "bar\"><"), 0U);
    EXPECT_EQ(WellFormed::complaint(svg_of(BarPlot{.id = "e"})), "");
}

TEST(Canvas, text_is_wrapped_at_spaces_and_counted_in_characters) {
    EXPECT_EQ(length_of("a µ–"), 4U);
    EXPECT_THAT(wrapped("one two three", 7), ElementsAre("one two", "three"));
    EXPECT_THAT(wrapped("µµµ µµµ", 7), ElementsAre("µµµ µµµ"));
    EXPECT_THAT(wrapped("extraordinary", 5), ElementsAre("extraordinary"));
    EXPECT_THAT(wrapped("", 5), ElementsAre());
}

} // namespace
} // namespace viaduct::bench
