// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.h"

#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

using driver::LoadKind;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> shapes_of(const std::vector<driver::LoadOptions>& points) {
    std::vector<std::string> shapes;
    for (const driver::LoadOptions& load : points)
        shapes.push_back(workload_name(load) + " " + std::to_string(load.threads) + "x" +
                         std::to_string(load.queues));
    return shapes;
}

TEST(Sweep, an_axis_ends_where_the_next_one_begins) {
    const auto axes = parse_sweep("threads=1,2,4,queues=8,block=4K,1M");
    ASSERT_TRUE(axes) << axes.error().message;
    ASSERT_EQ(axes->size(), 3U);
    EXPECT_THAT((*axes)[0].values, ElementsAre(1, 2, 4));
    EXPECT_EQ((*axes)[1].name, AxisName::queues);
    EXPECT_THAT((*axes)[1].values, ElementsAre(8));
    EXPECT_THAT((*axes)[2].values, ElementsAre(4096, 1 << 20));
}

TEST(Sweep, every_combination_is_there_once_and_the_last_axis_changes_fastest) {
    const auto points = expand({{.kind = LoadKind::getattr}}, *parse_sweep("threads=1,2,queues=1,4,1"));
    EXPECT_THAT(shapes_of(points), ElementsAre("getattr 1x1", "getattr 1x4", "getattr 2x1", "getattr 2x4"));
}

TEST(Sweep, words_stand_for_ways_of_doing_it) {
    const auto points =
        expand({{}}, *parse_sweep("completion=threads,dispatch=direct,staged,affinity=off,on"));
    ASSERT_EQ(points.size(), 4U);
    EXPECT_EQ(points[0].completion, driver::Completion::threads);
    EXPECT_EQ(points[0].dispatch, driver::Dispatch::direct);
    EXPECT_FALSE(points[0].affinity);
    EXPECT_TRUE(points[1].affinity);
    EXPECT_EQ(points[2].dispatch, driver::Dispatch::staged);
    EXPECT_EQ(expand({{}}, *parse_sweep("completion=wait"))[0].completion, driver::Completion::wait);
}

TEST(Sweep, blocks_are_those_of_what_moves_data) {
    driver::LoadOptions mixed;
    set_workload(*parse_mix("--mix", "randrw:8K"), mixed);
    const auto points = expand({{.kind = LoadKind::getattr}, mixed}, *parse_sweep("block=4K,64K"));
    EXPECT_THAT(shapes_of(points), ElementsAre("getattr 1x1", "randrw:4K 1x1", "randrw:64K 1x1"));
}

TEST(Sweep, a_mistake_is_a_sentence_with_the_value_and_the_remedy) {
    const struct {
        const char* text;
        const char* named;
    } mistakes[] = {{"4,8", "an axis and its values"},
                    {"cpus=1", "\"cpus\" is none of threads, queues"},
                    {"threads=1,threads=2", "\"threads\" is there twice"},
                    {"threads=", "not \"\""},
                    {"queues=0", "not \"0\""},
                    {"queues=1025", "up to 1024"},
                    {"block=4Q", "multiples of 8"},
                    {"block=2M", "up to 1048576"},
                    {"dispatch=direct,fast", "direct,staged, not \"fast\""},
                    {"affinity=yes", "off,on, not \"yes\""}};
    for (const auto& mistake : mistakes) {
        const auto axes = parse_sweep(mistake.text);
        ASSERT_FALSE(axes) << mistake.text;
        EXPECT_EQ(axes.error().exit_status, 2);
        EXPECT_THAT(axes.error().message, HasSubstr("--sweep is \"" + std::string{mistake.text} + "\""));
        EXPECT_THAT(axes.error().message, HasSubstr(mistake.named));
    }
    std::string many = "threads=1";
    for (int number = 2; number <= 200; ++number) many += "," + std::to_string(number);
    std::string depths = ",depth=1";
    for (int number = 2; number <= 200; ++number) depths += "," + std::to_string(number);
    EXPECT_THAT(parse_sweep(many + depths).error().message, HasSubstr("40000 rows"));
}

} // namespace
} // namespace viaduct::bench
