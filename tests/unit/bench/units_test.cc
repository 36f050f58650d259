// SPDX-License-Identifier: Apache-2.0
#include "bench/units.h"

#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>

namespace viaduct::bench {
namespace {

using testing::DoubleNear;
using testing::ElementsAre;
using testing::Pointwise;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

void expect_near(const std::vector<double>& ticks, const std::vector<double>& expected) {
    EXPECT_THAT(ticks, Pointwise(testing::DoubleNear(1e-9 * expected.back()), expected));
}

TEST(Units, figures_have_three_digits_that_matter) {
    EXPECT_EQ(three_digits(0.4567), "0.46");
    EXPECT_EQ(three_digits(0.0456), "0.046");
    EXPECT_EQ(three_digits(1.2345), "1.23");
    EXPECT_EQ(three_digits(12.345), "12.3");
    EXPECT_EQ(three_digits(123.45), "123");
    EXPECT_EQ(three_digits(1234.5), "1234");
    EXPECT_EQ(three_digits(9.999), "10.0");
    EXPECT_EQ(three_digits(99.99), "100");
    EXPECT_EQ(three_digits(0), "0");
}

TEST(Units, counts_and_times_have_their_prefix) {
    EXPECT_EQ(count_text(0), "0");
    EXPECT_EQ(count_text(999), "999");
    EXPECT_EQ(count_text(1'000), "1.00 k");
    EXPECT_EQ(count_text(2'780'000), "2.78 M");
    EXPECT_EQ(count_text(3e9), "3.00 G");
    EXPECT_EQ(count_text(999'700), "1.00 M");
    EXPECT_EQ(time_text(999'700), "1.00 ms");
    EXPECT_EQ(time_text(999'400), "999 µs");
    EXPECT_EQ(time_text(0), "0 ns");
    EXPECT_EQ(time_text(450), "450 ns");
    EXPECT_EQ(time_text(1'360), "1.36 µs");
    EXPECT_EQ(time_text(294'000), "294 µs");
    EXPECT_EQ(time_text(15e6), "15.0 ms");
    EXPECT_EQ(time_text(2e9), "2.00 s");
}

TEST(Units, blocks_are_told_in_the_largest_unit_that_fits) {
    EXPECT_EQ(bytes_text(0), "0 B");
    EXPECT_EQ(bytes_text(512), "512 B");
    EXPECT_EQ(bytes_text(4096), "4 KiB");
    EXPECT_EQ(bytes_text(1536), "1536 B");
    EXPECT_EQ(bytes_text(1 << 20), "1 MiB");
    EXPECT_EQ(bytes_text(1ULL << 43), "8192 GiB");
}

TEST(Units, what_is_no_figure_is_a_dash) {
    for (const double value : {kNaN, kInfinity, -kInfinity}) {
        EXPECT_EQ(fixed(value, 2), "–");
        EXPECT_EQ(three_digits(value), "–");
        EXPECT_EQ(count_text(value), "–");
        EXPECT_EQ(time_text(value), "–");
    }
    EXPECT_EQ(fixed(std::numeric_limits<double>::max(), 2).size(), 312U);
    EXPECT_EQ(fixed(-0.001, 2), "0.00");
}

TEST(LinearTicks, steps_are_round_and_the_last_reaches_the_value) {
    expect_near(linear_ticks(10, 5), {0, 2, 4, 6, 8, 10});
    expect_near(linear_ticks(11, 5), {0, 5, 10, 15});
    expect_near(linear_ticks(0.7, 4), {0, 0.2, 0.4, 0.6, 0.8});
    expect_near(linear_ticks(2'780'000, 5), {0, 1'000'000, 2'000'000, 3'000'000});
}

TEST(LinearTicks, a_value_on_a_tick_gets_no_further_one_by_rounding) {
    expect_near(linear_ticks(0.3, 3), {0, 0.1, 0.2, 0.3});
    expect_near(linear_ticks(0.6, 3), {0, 0.2, 0.4, 0.6});
}

TEST(LinearTicks, there_are_always_two_and_never_many) {
    for (const double most : {0.0, -5.0, kNaN, kInfinity, 5e-324, 1e-300, 1e300, 1.7e308}) {
        const auto ticks = linear_ticks(most, 5);
        EXPECT_GE(ticks.size(), 2U) << most;
        EXPECT_LE(ticks.size(), 11U) << most;
        EXPECT_TRUE(std::isfinite(ticks.back())) << most;
        EXPECT_GT(ticks.back(), 0) << most;
    }
    EXPECT_GE(linear_ticks(10, 0).size(), 2U);
}

TEST(LogTicks, decades_around_the_values_with_steps_between_when_they_are_few) {
    expect_near(log_ticks(1'500, 9'000), {1'000, 2'000, 5'000, 10'000});
    expect_near(log_ticks(15, 2'000'000), {10, 100, 1e3, 1e4, 1e5, 1e6, 1e7});
}

TEST(LogTicks, a_bound_on_a_decade_gets_no_further_one) {
    expect_near(log_ticks(1'000, 1'000'000), {1e3, 1e4, 1e5, 1e6});
    expect_near(log_ticks(1'000, 1'000), {1'000, 2'000, 5'000, 10'000});
}

TEST(LogTicks, values_that_have_no_logarithm_count_as_one) {
    expect_near(log_ticks(0, kNaN), {1, 2, 5, 10});
    expect_near(log_ticks(-1, 50), {1, 2, 5, 10, 20, 50, 100});
    EXPECT_LE(log_ticks(5e-324, 1.7e308).size(), 32U);
}

} // namespace
} // namespace viaduct::bench
