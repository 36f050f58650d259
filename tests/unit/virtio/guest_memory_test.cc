// SPDX-License-Identifier: Apache-2.0
#include "virtio/guest_memory.h"

#include <algorithm>
#include <array>
#include <gtest/gtest.h>

namespace viaduct::virtio {
namespace {

std::array<std::byte, 4096> storage;

MemoryRegion region(std::uint64_t guest, std::uint64_t user, std::uint64_t bytes, std::size_t host) {
    return {
        .guest_address = GuestAddress{guest}, .user_address = user, .bytes = bytes, .host = &storage[host]};
}

TEST(GuestMemory, a_range_is_found_where_one_region_holds_all_of_it) {
    const GuestMemory memory =
        GuestMemory::make({region(0x2000, 0x9000, 0x100, 512), region(0x1000, 0x5000, 0x100, 0)}).value();
    EXPECT_EQ(memory.at(GuestAddress{0x1000}, 0x100), &storage[0]);
    EXPECT_EQ(memory.at(GuestAddress{0x10ff}, 1), &storage[0xff]);
    EXPECT_EQ(memory.at(GuestAddress{0x2010}, 0xf0), &storage[512 + 16]);
    EXPECT_EQ(memory.at(GuestAddress{0x10ff}, 2), nullptr);
    EXPECT_EQ(memory.at(GuestAddress{0xfff}, 1), nullptr);
    EXPECT_EQ(memory.at(GuestAddress{0x1100}, 1), nullptr);
    EXPECT_EQ(memory.at(GuestAddress{0x1000}, ~0ULL), nullptr);
    EXPECT_EQ(memory.at(GuestAddress{~0ULL}, 1), nullptr);
    EXPECT_EQ(memory.at_user(0x9000, 0x100), &storage[512]);
    EXPECT_EQ(memory.at_user(0x5001, 0x100), nullptr);
    EXPECT_EQ(memory.at_user(0x1000, 1), nullptr) << "a guest address is no user address";
    EXPECT_EQ(GuestMemory{}.at(GuestAddress{0}, 1), nullptr);
}

TEST(GuestMemory, regions_that_are_empty_wrap_or_overlap_are_refused) {
    const auto refused = [](std::vector<MemoryRegion> regions) {
        const auto made = GuestMemory::make(std::move(regions));
        return !made && made.error() == Errno{EINVAL};
    };
    EXPECT_TRUE(refused({region(0, 0, 0, 0)}));
    EXPECT_TRUE(refused({region(~0ULL - 10, 0, 12, 0)}));
    EXPECT_FALSE(refused({region(~0ULL - 10, 0, 11, 0)}));
    EXPECT_TRUE(refused({region(0, ~0ULL, 2, 0)}));
    EXPECT_TRUE(refused({region(0x1000, 0x1000, 0x100, 0), region(0x10ff, 0x8000, 0x100, 512)}));
    EXPECT_TRUE(refused({region(0x1000, 0x1000, 0x100, 0), region(0x1000, 0x8000, 0x100, 512)}));
    EXPECT_FALSE(refused({region(0x1000, 0x1000, 0x100, 0), region(0x1100, 0x8000, 0x100, 512)}));
    EXPECT_FALSE(refused({}));
}

TEST(GuestMemory, segments_run_across_regions_that_touch_and_stop_at_a_hole) {
    const GuestMemory memory =
        GuestMemory::make({region(0x1000, 0x1000, 0x100, 0), region(0x1100, 0x8000, 0x10, 512),
                           region(0x1110, 0x9000, 0x100, 1024)})
            .value();
    std::vector<iovec> segments;
    ASSERT_TRUE(memory.append_segments(GuestAddress{0x10f0}, 0x30, segments));
    ASSERT_EQ(segments.size(), 3U);
    EXPECT_EQ(segments[0].iov_base, &storage[0xf0]);
    EXPECT_EQ(segments[0].iov_len, 0x10U);
    EXPECT_EQ(segments[1].iov_base, &storage[512]);
    EXPECT_EQ(segments[1].iov_len, 0x10U);
    EXPECT_EQ(segments[2].iov_base, &storage[1024]);
    EXPECT_EQ(segments[2].iov_len, 0x10U);

    EXPECT_EQ(memory.append_segments(GuestAddress{0x1200}, 0x11, segments).error(), Errno{EFAULT});
    EXPECT_EQ(memory.append_segments(GuestAddress{0xfff}, 1, segments).error(), Errno{EFAULT});
    segments.clear();
    EXPECT_TRUE(memory.append_segments(GuestAddress{0}, 0, segments));
    EXPECT_TRUE(segments.empty());
}

TEST(GuestMemory, a_range_does_not_go_on_from_the_last_address_to_the_first) {
    const GuestMemory memory =
        GuestMemory::make({region(0, 0, 16, 0), region(~0ULL - 15, 0x1000, 16, 512)}).value();
    std::vector<iovec> segments;
    EXPECT_EQ(memory.append_segments(GuestAddress{~0ULL - 7}, 16, segments).error(), Errno{EFAULT});
    segments.clear();
    EXPECT_TRUE(memory.append_segments(GuestAddress{~0ULL - 7}, 8, segments));
}

TEST(GuestMemory, many_regions_are_searched_as_exactly_as_few) {
    std::vector<MemoryRegion> regions;
    for (std::size_t index = 0; index < 64; ++index) {
        regions.push_back(region(0x1000 + index * 0x40, 0x10'0000 + index * 0x1000, 0x20, index * 0x20));
    }
    std::ranges::reverse(regions);
    const GuestMemory memory = GuestMemory::make(regions).value();
    for (std::uint64_t address = 0xfe0; address < 0x2010; ++address) {
        const std::uint64_t offset = address - 0x1000;
        const bool inside = address >= 0x1000 && address < 0x2000 && offset % 0x40 < 0x20;
        std::byte* const expected = inside ? &storage[offset / 0x40 * 0x20 + offset % 0x40] : nullptr;
        EXPECT_EQ(memory.at(GuestAddress{address}, 1), expected) << address;
    }
    EXPECT_EQ(memory.at(GuestAddress{0x101f}, 2), nullptr);
}

} // namespace
} // namespace viaduct::virtio
