// SPDX-License-Identifier: Apache-2.0
#include "driver/latency.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace viaduct::driver {
namespace {

TEST(Latency, nothing_recorded_is_all_zero) {
    const Latency none;
    EXPECT_EQ(none.count(), 0U);
    EXPECT_EQ(none.max(), 0U);
    EXPECT_EQ(none.mean(), 0);
    EXPECT_EQ(none.percentile(50), 0U);
    EXPECT_TRUE(none.buckets().empty());
}

TEST(Latency, small_values_are_exact) {
    Latency latency;
    for (std::uint64_t ns = 1; ns <= 100; ++ns) latency.record(ns);
    EXPECT_EQ(latency.percentile(0), 1U);
    EXPECT_EQ(latency.percentile(1), 1U);
    EXPECT_EQ(latency.percentile(50), 50U);
    EXPECT_EQ(latency.percentile(99), 99U);
    EXPECT_EQ(latency.percentile(99.9), 100U);
    EXPECT_EQ(latency.percentile(100), 100U);
    EXPECT_EQ(latency.mean(), 50.5);
}

TEST(Latency, any_value_is_told_within_a_sixty_fourth) {
    std::mt19937_64 random{1};
    for (int count = 0; count < 20'000; ++count) {
        const std::uint64_t ns = (random() & Latency::kMaxNs) >> random() % 40;
        Latency latency;
        latency.record(ns);
        latency.record(Latency::kMaxNs); // so that max() does not hide the bucket's end
        const std::uint64_t told = latency.percentile(50);
        ASSERT_GE(told, ns);
        ASSERT_LE(told - ns, ns / 64) << ns;
        const auto bucket = latency.buckets().front();
        ASSERT_LE(bucket.first_ns, ns);
        ASSERT_GE(bucket.last_ns, ns);
    }
}

TEST(Latency, percentiles_are_those_of_the_sorted_values) {
    std::mt19937_64 random{2};
    std::vector<std::uint64_t> values;
    Latency latency;
    for (int count = 0; count < 5000; ++count) {
        values.push_back(1000 + random() % 10'000'000);
        latency.record(values.back());
    }
    std::ranges::sort(values);
    for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9}) {
        const auto rank = static_cast<std::size_t>(std::ceil(percent / 100 * 5000)) - 1;
        EXPECT_GE(latency.percentile(percent), values[rank]);
        EXPECT_LE(latency.percentile(percent), values[rank] + values[rank] / 64 + 1);
    }
    EXPECT_EQ(latency.max(), values.back());
    EXPECT_EQ(latency.percentile(100), values.back());
}

TEST(Latency, merged_is_as_if_recorded_in_one) {
    Latency a;
    Latency b;
    Latency both;
    for (std::uint64_t ns = 1; ns < 1'000'000; ns = ns * 3 / 2 + 1) {
        (ns % 2 == 0 ? a : b).record(ns);
        both.record(ns);
    }
    Latency merged;
    merged.merge(a);
    merged.merge(Latency{});
    merged.merge(b);
    EXPECT_EQ(merged.count(), both.count());
    EXPECT_EQ(merged.max(), both.max());
    EXPECT_EQ(merged.mean(), both.mean());
    EXPECT_EQ(merged.buckets().size(), both.buckets().size());
    EXPECT_EQ(merged.percentile(50), both.percentile(50));
}

TEST(Latency, what_is_longer_than_the_longest_counts_as_that) {
    Latency latency;
    latency.record(UINT64_MAX);
    EXPECT_EQ(latency.max(), Latency::kMaxNs);
    EXPECT_EQ(latency.percentile(50), Latency::kMaxNs);
}

} // namespace
} // namespace viaduct::driver
