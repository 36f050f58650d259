// SPDX-License-Identifier: Apache-2.0
#include "driver/dma_arena.h"

#include <gtest/gtest.h>

#include <cstring>

namespace viaduct::driver {
namespace {

TEST(DmaArena, what_is_given_back_can_be_had_again_as_one_piece) {
    const auto arena = DmaArena::make({.bytes = 65536}).value();
    {
        std::vector<DmaBuffer> buffers;
        for (int count = 0; count < 16; ++count) buffers.push_back(arena->allocate(4096).value());
        EXPECT_EQ(arena->allocate(1).error(), Errno{ENOMEM});
        std::swap(buffers[3], buffers[12]); // given back in no order
    }
    EXPECT_TRUE(arena->allocate(65536));
}

TEST(DmaArena, alignment_is_kept) {
    const auto arena = DmaArena::make({.bytes = 65536}).value();
    const auto small = arena->allocate(10).value();
    const auto page = arena->allocate(100, 4096).value();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(page.data()) % 4096, 0U);
    EXPECT_NE(small.data(), page.data());
}

TEST(DmaArena, a_buffer_may_run_across_two_regions) {
    const auto arena = DmaArena::make({.bytes = 8192}).value();
    arena->admit(*arena->grow(8192).value());
    const auto buffer = arena->allocate(12000).value();
    std::memset(buffer.data(), 1, buffer.size());
    const auto range = arena->range_of(buffer.data(), buffer.size());
    ASSERT_TRUE(range);
    const auto regions = arena->regions();
    ASSERT_EQ(regions.size(), 2U);
    EXPECT_EQ(static_cast<std::uint64_t>(regions[0]->guest_address) + 8192,
              static_cast<std::uint64_t>(regions[1]->guest_address));
}

TEST(DmaArena, a_retired_region_gives_nothing_more) {
    const auto arena = DmaArena::make({.bytes = 8192}).value();
    const DmaRegion& second = *arena->grow(8192).value();
    EXPECT_FALSE(arena->allocate(12000)) << "not admitted yet";
    arena->admit(second);
    {
        const auto across = arena->allocate(12000).value();
        arena->retire(second);
        EXPECT_FALSE(arena->allocate(64));
    }
    EXPECT_TRUE(arena->allocate(8192));
    EXPECT_FALSE(arena->allocate(12000));
    EXPECT_EQ(arena->regions().size(), 1U);
}

TEST(DmaArena, only_its_own_memory_has_an_address) {
    const auto arena = DmaArena::make({.bytes = 4096}).value();
    int elsewhere = 0;
    EXPECT_EQ(arena->range_of(&elsewhere, sizeof elsewhere).error(), Errno{EFAULT});
    const std::byte* const start = arena->regions()[0]->host;
    EXPECT_TRUE(arena->range_of(start, 4096));
    EXPECT_EQ(arena->range_of(start, 4097).error(), Errno{EFAULT});
    EXPECT_EQ(arena->range_of(start - 1, 2).error(), Errno{EFAULT});
}

TEST(DmaArena, it_does_not_grow_beyond_what_was_reserved) {
    const auto arena = DmaArena::make({.bytes = 4096, .bytes_max = 8192}).value();
    EXPECT_TRUE(arena->grow(4096));
    EXPECT_EQ(arena->grow(1).error(), Errno{ENOSPC});
}

} // namespace
} // namespace viaduct::driver
