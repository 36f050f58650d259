// SPDX-License-Identifier: Apache-2.0
#include "bench/preset.h"

#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> rows_of(const std::string& preset) {
    const auto points = preset_points(preset, {});
    std::vector<std::string> rows;
    if (!points) return {points.error().message};
    for (const driver::LoadOptions& load : *points)
        rows.push_back(workload_name(load) + " " + std::to_string(load.threads) + "x" +
                       std::to_string(load.queues) + "x" + std::to_string(load.depth));
    return rows;
}

TEST(Preset, has_the_published_shapes_under_both_names) {
    EXPECT_THAT(rows_of("s0"), ElementsAre("randwrite:4K 8x8x128"));
    EXPECT_EQ(rows_of("random-write"), rows_of("s0"));
    EXPECT_THAT(rows_of("s2"),
                ElementsAre("read:256K 1x1x128", "read:256K 2x2x128", "read:256K 4x4x128",
                            "read:256K 8x8x128", "read:256K 16x1x128", "read:256K 16x2x128",
                            "read:256K 16x4x128", "read:256K 16x8x128", "read:256K 24x24x128"));
    EXPECT_EQ(rows_of("threads-by-queues"), rows_of("s2"));
    EXPECT_THAT(rows_of("s3"), ElementsAre("read:256K 32x1x8", "read:256K 32x8x8", "read:256K 32x16x8",
                                           "read:256K 32x32x8", "write:256K 32x1x8", "write:256K 32x8x8",
                                           "write:256K 32x16x8", "write:256K 32x32x8"));
    EXPECT_EQ(rows_of("sequential"), rows_of("s3"));
    EXPECT_THAT(rows_of("s4"), ElementsAre("randrw:4K 8x8x128"));
    EXPECT_EQ(rows_of("random-read-write"), rows_of("s4"));
}

TEST(Preset, its_jobs_sleep_and_the_rest_is_the_common_one) {
    const auto points = preset_points("s4", {.file_bytes = 1 << 20, .verify = true});
    EXPECT_EQ(points->front().completion, driver::Completion::wait);
    EXPECT_EQ(points->front().file_bytes, 1U << 20);
    EXPECT_TRUE(points->front().verify);
}

TEST(Preset, one_that_does_not_exist_is_refused_with_the_names) {
    const auto points = preset_points("s1", {});
    ASSERT_FALSE(points);
    EXPECT_EQ(points.error().exit_status, 2);
    EXPECT_THAT(points.error().message, HasSubstr("--preset is \"s1\""));
    EXPECT_THAT(points.error().message, HasSubstr("threads-by-queues (s2)"));
}

} // namespace
} // namespace viaduct::bench
