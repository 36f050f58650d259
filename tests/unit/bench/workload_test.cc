// SPDX-License-Identifier: Apache-2.0
#include "bench/workload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

using driver::LoadKind;
using testing::HasSubstr;

std::string name_after(const Workload& workload) {
    driver::LoadOptions load{.block_bytes = 8192};
    set_workload(workload, load);
    return workload_name(load);
}

TEST(Workload, what_is_written_is_what_it_is_called) {
    const std::string list =
        "null,getattr,lookup,open-release,create-unlink,readdir,readdirplus,read:4K,write:1M,"
        "randread:64K,randwrite:512,rw:4K,randrw:8K";
    const auto workloads = parse_workloads("--kind", list);
    ASSERT_TRUE(workloads) << workloads.error().message;
    std::string names;
    for (const Workload& workload : *workloads) names += (names.empty() ? "" : ",") + name_after(workload);
    EXPECT_EQ(names, list);
}

TEST(Workload, read_is_in_order_and_randread_is_not) {
    const auto workloads = parse_workloads("--kind", "read,randread,randrw:4K");
    ASSERT_TRUE(workloads) << workloads.error().message;
    EXPECT_FALSE((*workloads)[0].front().random);
    EXPECT_TRUE((*workloads)[1].front().random);
    ASSERT_EQ((*workloads)[2].size(), 2U);
    EXPECT_EQ((*workloads)[2][0].kind, LoadKind::read);
    EXPECT_EQ((*workloads)[2][1].kind, LoadKind::write);
    EXPECT_TRUE((*workloads)[2][1].random);
}

TEST(Workload, a_block_size_that_is_not_given_is_the_common_one) {
    EXPECT_EQ(name_after(parse_workloads("--kind", "randread")->front()), "randread:8K");
    EXPECT_EQ(name_after(parse_workloads("--kind", "randrw")->front()), "randrw:8K");
}

TEST(Workload, a_mix_has_shares) {
    const auto mix = parse_mix("--mix", "randread:4K=70,write:16K=30,getattr");
    ASSERT_TRUE(mix) << mix.error().message;
    ASSERT_EQ(mix->size(), 3U);
    EXPECT_EQ((*mix)[0].weight, 70U);
    EXPECT_EQ((*mix)[1].weight, 30U);
    EXPECT_EQ((*mix)[1].block_bytes, 16384U);
    EXPECT_EQ((*mix)[2].weight, 1U);
    EXPECT_EQ(name_after(*mix), "randread:4K=70,write:16K=30,getattr=1");
    driver::LoadOptions load;
    set_workload(*mix, load);
    EXPECT_EQ(load.mix.size(), 3U);
    EXPECT_EQ(block_of(load), 16384U);
}

TEST(Workload, a_mix_of_one_kind_is_that_kind) {
    driver::LoadOptions load;
    set_workload(*parse_mix("--mix", "randread:4K=5"), load);
    EXPECT_TRUE(load.mix.empty());
    EXPECT_EQ(workload_name(load), "randread:4K");
}

TEST(Workload, a_mistake_is_named) {
    const struct {
        const char* list;
        const char* named;
    } mistakes[] = {{"stat", "it takes null, getattr"},
                    {"", "it takes null"},
                    {"read,,write", "\"\""},
                    {"getattr:4K", "reads and writes only"},
                    {"read:", "multiple of 8"},
                    {"read:0", "multiple of 8"},
                    {"read:7", "multiple of 8"},
                    {"read:2M", "at most 1M"},
                    {"read:4Q", "multiple of 8"}};
    for (const auto& mistake : mistakes) {
        const auto workloads = parse_workloads("--kind", mistake.list);
        ASSERT_FALSE(workloads) << mistake.list;
        EXPECT_EQ(workloads.error().exit_status, 2);
        EXPECT_THAT(workloads.error().message, HasSubstr("--kind has \""));
        EXPECT_THAT(workloads.error().message, HasSubstr(mistake.named));
    }
    for (const char* const list : {"read=0", "read=", "read=1.5", "read=x", "read=2000000"}) {
        const auto mix = parse_mix("--mix", list);
        ASSERT_FALSE(mix) << list;
        EXPECT_THAT(mix.error().message, HasSubstr("from 1 to"));
    }
}

} // namespace
} // namespace viaduct::bench
