// SPDX-License-Identifier: Apache-2.0
#include "fs/lock_list.h"

#include <gtest/gtest.h>
#include <random>
#include <string>

namespace viaduct::fs {
namespace {

constexpr LockOwner kAnn{.client = 1, .id = 10};
constexpr LockOwner kBob{.client = 1, .id = 20};

void set(LockList& list, LockOwner owner, LockType type, std::uint64_t first, std::uint64_t last) {
    list.set({.owner = owner, .type = type, .range = {.first = first, .last = last}, .pid = 7});
}
void share(LockList& list, LockOwner owner, std::uint64_t first, std::uint64_t last) {
    set(list, owner, LockType::shared, first, last);
}
void exclude(LockList& list, LockOwner owner, std::uint64_t first, std::uint64_t last) {
    set(list, owner, LockType::exclusive, first, last);
}
void unlock(LockList& list, LockOwner owner, std::uint64_t first, std::uint64_t last) {
    set(list, owner, LockType::none, first, last);
}

std::string text(const LockList& list) {
    std::string all;
    for (const auto& held : list.all()) {
        all += held.type == LockType::shared ? "s" : "x";
        all += std::to_string(held.range.first) + "-" + std::to_string(held.range.last) + " ";
    }
    return all;
}

TEST(LockList, neighbours_of_one_type_become_one) {
    LockList list;
    share(list, kAnn, 10, 19);
    share(list, kAnn, 30, 39);
    share(list, kAnn, 20, 29);
    EXPECT_EQ(text(list), "s10-39 ");
    share(list, kAnn, 0, LockRange::kEnd);
    EXPECT_EQ(text(list), "s0-" + std::to_string(LockRange::kEnd) + " ");
}

TEST(LockList, neighbours_of_another_type_or_owner_stay_apart) {
    LockList list;
    share(list, kAnn, 10, 19);
    exclude(list, kAnn, 20, 29);
    share(list, kBob, 0, 9);
    EXPECT_EQ(text(list), "s0-9 s10-19 x20-29 ");
}

TEST(LockList, a_hole_makes_two_of_one) {
    LockList list;
    exclude(list, kAnn, 0, 99);
    unlock(list, kAnn, 40, 59);
    EXPECT_EQ(text(list), "x0-39 x60-99 ");
    share(list, kAnn, 10, 19);
    EXPECT_EQ(text(list), "x0-9 s10-19 x20-39 x60-99 ");
    unlock(list, kAnn, 0, LockRange::kEnd);
    EXPECT_TRUE(list.empty());
}

TEST(LockList, a_change_of_type_holds_for_the_range_only) {
    LockList list;
    exclude(list, kAnn, 0, 99);
    share(list, kAnn, 50, 199);
    EXPECT_EQ(text(list), "x0-49 s50-199 ");
    exclude(list, kAnn, 50, 149);
    EXPECT_EQ(text(list), "x0-149 s150-199 ");
}

TEST(LockList, only_others_are_in_the_way_and_shared_ones_not_of_each_other) {
    LockList list;
    share(list, kAnn, 10, 19);
    EXPECT_EQ(list.conflict(kAnn, LockType::exclusive, {.first = 0, .last = 99}), nullptr);
    EXPECT_EQ(list.conflict(kBob, LockType::shared, {.first = 0, .last = 99}), nullptr);
    ASSERT_NE(list.conflict(kBob, LockType::exclusive, {.first = 19, .last = 99}), nullptr);
    EXPECT_EQ(list.conflict(kBob, LockType::exclusive, {.first = 20, .last = 99}), nullptr);
    EXPECT_EQ(list.conflict({.client = 2, .id = 10}, LockType::exclusive, {})->owner, kAnn);
}

// Against one type per byte.
TEST(LockList, random_changes_are_what_bytes_would_be) {
    constexpr std::uint64_t kBytes = 40;
    const std::uint32_t seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    LockList list;
    std::array<LockType, kBytes> bytes{};
    for (int round = 0; round < 20'000; ++round) {
        const std::uint64_t first = random() % kBytes;
        const std::uint64_t last = first + random() % (kBytes - first);
        const auto type = static_cast<LockType>(random() % 3);
        set(list, kAnn, type, first, last);
        for (std::uint64_t at = first; at <= last; ++at) bytes[at] = type;
        std::array<LockType, kBytes> seen{};
        const LockList::Held* before = nullptr;
        for (const auto& held : list.all()) {
            if (before != nullptr) {
                ASSERT_GT(held.range.first, before->range.last);
                ASSERT_FALSE(held.range.first == before->range.last + 1 && held.type == before->type);
            }
            before = &held;
            for (std::uint64_t at = held.range.first; at <= held.range.last; ++at) seen[at] = held.type;
        }
        ASSERT_EQ(seen, bytes);
    }
}

} // namespace
} // namespace viaduct::fs
