// SPDX-License-Identifier: Apache-2.0
#include "bench/report.h"

#include "support/temp_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

using testing::HasSubstr;
using testing::Not;

ReportPoint point(const std::string& server, const std::string& load) {
    return {.server = server, .load = load, .operations_per_second = 500'000, .server_ns = 1'360};
}

TEST(Report, what_callers_give_is_escaped_everywhere) {
    const std::string evil = "<script>alert(\"&'\")</script>";
    const ReportHeader header{.title = evil,
                              .command = evil,
                              .machine = evil,
                              .kernel = evil,
                              .date = evil,
                              .cpus = evil,
                              .others = {{evil, evil}},
                              .notes = {evil}};
    const std::string page = report_page(header, std::vector{point(evil, evil), point("other", evil)});

    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, Not(HasSubstr("alert(\"")));
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;&amp;&#39;&quot;)"));
}

TEST(Report, nothing_is_fetched_from_elsewhere) {
    const std::string page = report_page({.title = "t"}, std::vector{point("a", "null"), point("b", "null")});

    for (const char* reference : {"src=", "href=", "url(", "@import", "<link", "<script"})
        EXPECT_THAT(page, Not(HasSubstr(reference)));
}

TEST(Report, loads_are_sections_in_the_order_of_their_first_point) {
    const std::string page = report_page(
        {.title = "t"}, std::vector{point("a", "null"), point("a", "getattr"), point("b", "null")});

    const auto null = page.find("<h2>null</h2>");
    const auto getattr = page.find("<h2>getattr</h2>");
    ASSERT_NE(null, std::string::npos);
    ASSERT_NE(getattr, std::string::npos);
    EXPECT_LT(null, getattr);
    EXPECT_EQ(page.find("<h2>null</h2>", null + 1), std::string::npos);
}

TEST(Report, without_points_it_says_so) {
    EXPECT_THAT(report_page({.title = "t"}, {}), HasSubstr("Nothing was measured."));
}

TEST(Report, columns_that_nobody_measured_are_left_out_and_single_gaps_are_dashes) {
    std::vector points{point("a", "null"), point("b", "null")};
    points[1].operations_per_second = kNotMeasured;
    const std::string page = report_page({.title = "t"}, points);

    EXPECT_THAT(page, HasSubstr("Operations/s"));
    EXPECT_THAT(page, HasSubstr("<td>–</td>"));
    EXPECT_THAT(page, Not(HasSubstr("Bare call")));
    EXPECT_THAT(page, Not(HasSubstr("nan")));
}

TEST(Report, the_page_is_written_and_one_that_is_there_is_replaced) {
    const test::TempDir dir;
    const std::string path = dir.write("report.html", std::string(1 << 20, 'x'));

    ASSERT_TRUE(write_report(path, {.title = "t"}, std::vector{point("a", "null")}));
    EXPECT_EQ(dir.read("report.html"), report_page({.title = "t"}, std::vector{point("a", "null")}));
}

TEST(Report, a_path_that_cannot_be_written_is_named) {
    const auto written = write_report("/nowhere/report.html", {.title = "t"}, {});
    ASSERT_FALSE(written);
    EXPECT_THAT(written.error().message, HasSubstr("/nowhere/report.html"));
    EXPECT_THAT(written.error().message, HasSubstr("ENOENT"));

    const auto full = write_report("/dev/full", {.title = "t"}, {});
    ASSERT_FALSE(full);
    EXPECT_THAT(full.error().message, HasSubstr("ENOSPC"));
}

} // namespace
} // namespace viaduct::bench
