// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_set.h"

#include "unit/topology/machines.h"

#include <gtest/gtest.h>
#include <random>
#include <set>

namespace viaduct::topology {
namespace {

TEST(CpuSet, list_text_joins_neighbours) {
    EXPECT_EQ((CpuSet{0, 1, 2, 3, 8}).list_text(), "0-3,8");
    EXPECT_EQ((CpuSet{5}).list_text(), "5");
    EXPECT_EQ((CpuSet{1, 3, 63, 64, 65, 1023}).list_text(), "1,3,63-65,1023");
    EXPECT_EQ(CpuSet{}.list_text(), "");
}

TEST(CpuSet, sysfs_text_names_each_cpu) {
    EXPECT_EQ((CpuSet{0, 1, 2, 8}).sysfs_text(), "0, 1, 2, 8");
    EXPECT_EQ(CpuSet{}.sysfs_text(), "");
}

TEST(CpuSet, both_texts_are_read) {
    EXPECT_EQ(CpuSet::parse("0-3,8\n").value(), (CpuSet{0, 1, 2, 3, 8}));
    EXPECT_EQ(CpuSet::parse("0, 1, 2").value(), (CpuSet{0, 1, 2}));
    EXPECT_EQ(CpuSet::parse("8191").value(), (CpuSet{8191}));
    EXPECT_EQ(CpuSet::parse("").value(), CpuSet{});
    EXPECT_EQ(CpuSet::parse("\n").value(), CpuSet{});
}

TEST(CpuSet, what_is_no_list_is_refused) {
    for (const char* text : {"a", "1,", ",1", "1,,2", "3-1", "1-", "-1", "1-2-3", "1 2", "0x1", "1;2"})
        EXPECT_EQ(CpuSet::parse(text).error(), Errno{EINVAL}) << text;
    for (const char* text : {"8192", "0-4000000000", "99999999999"})
        EXPECT_EQ(CpuSet::parse(text).error(), Errno{ERANGE}) << text;
}

TEST(CpuSet, sets_are_equal_whatever_was_in_them_before) {
    CpuSet set{1, 1000};
    set.remove(1000);
    EXPECT_EQ(set, CpuSet{1});
    EXPECT_EQ((CpuSet{1, 1000} - CpuSet{1000}), CpuSet{1});
    EXPECT_EQ((CpuSet{1, 1000} & CpuSet{1, 7}), CpuSet{1});
    set.remove(1);
    EXPECT_TRUE(set.empty());
    EXPECT_EQ(set.last(), std::nullopt);
}

TEST(CpuSet, next_finds_members_at_and_after_a_place) {
    const CpuSet set{3, 64, 130};
    EXPECT_EQ(set.next(0), 3U);
    EXPECT_EQ(set.next(3), 3U);
    EXPECT_EQ(set.next(4), 64U);
    EXPECT_EQ(set.next(65), 130U);
    EXPECT_EQ(set.next(131), std::nullopt);
    EXPECT_EQ(set.next(5000), std::nullopt);
    EXPECT_EQ(set.last(), 130U);
}

TEST(CpuSet, behaves_as_a_set_of_numbers) {
    const std::uint64_t seed = random_seed();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937_64 random{seed};
    CpuSet set;
    std::set<CpuId> model;
    for (int step = 0; step < 5000; ++step) {
        const auto cpu = static_cast<CpuId>(random() % 1100);
        if (random() % 2 == 0) {
            set.add(cpu);
            model.insert(cpu);
        } else {
            set.remove(cpu);
            model.erase(cpu);
        }
        ASSERT_EQ(set.contains(cpu), model.contains(cpu));
        ASSERT_EQ(set.count(), model.size());
    }
    std::set<CpuId> members;
    for (const CpuId cpu : set) members.insert(cpu);
    EXPECT_EQ(members, model);
    EXPECT_EQ(CpuSet::parse(set.list_text()).value(), set);
    EXPECT_EQ(CpuSet::parse(set.sysfs_text()).value(), set);
}

} // namespace
} // namespace viaduct::topology
