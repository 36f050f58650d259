// SPDX-License-Identifier: Apache-2.0
#include "config/size.h"

#include <gtest/gtest.h>

namespace viaduct::config {
namespace {

using namespace std::chrono_literals;

TEST(Size, is_read_with_its_unit) {
    EXPECT_EQ(parse_size("512"), 512U);
    EXPECT_EQ(parse_size("4K"), 4096U);
    EXPECT_EQ(parse_size("1M"), 1U << 20);
    EXPECT_EQ(parse_size("3G"), 3ULL << 30);
    for (const char* const text :
         {"", "K", "4k", "4 K", "-1", "1.5M", "4KB", "99999999999999999999", "17179869184G"})
        EXPECT_FALSE(parse_size(text)) << text;
}

TEST(Size, is_written_as_it_is_read) {
    EXPECT_EQ(size_text(0), "0");
    EXPECT_EQ(size_text(1000), "1000");
    EXPECT_EQ(size_text(4096), "4K");
    EXPECT_EQ(size_text(1536), "1536");
    EXPECT_EQ(size_text(64ULL << 20), "64M");
}

TEST(Duration, is_in_seconds_unless_it_says_otherwise) {
    EXPECT_EQ(parse_duration("2"), 2s);
    EXPECT_EQ(parse_duration("500ms"), 500ms);
    EXPECT_EQ(parse_duration("30s"), 30s);
    EXPECT_EQ(parse_duration("2m"), 2min);
    EXPECT_EQ(parse_duration("1h"), 1h);
    for (const char* const text : {"", "s", "1.5s", "-1", "1d", "1001h"})
        EXPECT_FALSE(parse_duration(text)) << text;
}

TEST(Duration, is_written_as_it_is_read) {
    EXPECT_EQ(duration_text(0ms), "0ms");
    EXPECT_EQ(duration_text(200ms), "200ms");
    EXPECT_EQ(duration_text(90s), "90s");
    EXPECT_EQ(duration_text(120s), "2m");
}

} // namespace
} // namespace viaduct::config
