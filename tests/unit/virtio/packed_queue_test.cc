// SPDX-License-Identifier: Apache-2.0
//
// Packed queue, device side, against a guest that writes what it likes.
#include "virtio/packed_queue.h"

#include "unit/virtio/guest_ring.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::virtio {
namespace {

using testing::HasSubstr;

constexpr std::uint16_t N = kDescNext;
constexpr std::uint16_t W = kDescWrite;
constexpr std::uint16_t I = kDescIndirect;

PackedQueue queue_of(const PackedGuestRing& guest) {
    return PackedQueue::make(guest.memory(), guest.layout()).value();
}

struct PackedRefusal {
    const char* name;
    const char* reason;
    std::function<void(PackedGuestRing&)> write;
    bool indirect = true;
};

class RefusedPackedChains : public testing::TestWithParam<PackedRefusal> {};

TEST_P(RefusedPackedChains, breaks_the_queue_and_a_new_one_serves) {
    PackedGuestRing guest{{.size = 7, .indirect = GetParam().indirect}};
    GetParam().write(guest);
    PackedQueue queue = queue_of(guest);
    Chain chain;
    EXPECT_EQ(queue.pop(chain).error(), Errno{EPROTO});
    EXPECT_TRUE(queue.broken());
    EXPECT_THAT(queue.reason(), HasSubstr(GetParam().reason));
    EXPECT_FALSE(queue.has_work()) << "a worker would spin on it";
    EXPECT_FALSE(queue.enable_kicks());
    EXPECT_EQ(queue.pop(chain).error(), Errno{EPROTO});
    EXPECT_EQ(queue.base(), 0x8000'8000U) << "GET_VRING_BASE still names the chain that was refused";

    guest.write_available(0, {.next = 3});
    PackedQueue again = queue_of(guest);
    ASSERT_TRUE(again.pop(chain).value());
    EXPECT_EQ(chain.ticket.id, 3);
}

const PackedRefusal kRefusals[] = {
    {"chain_without_an_end", "entries free",
     [](PackedGuestRing& guest) {
         for (std::uint32_t offset = 0; offset < 7; ++offset) guest.write_available(offset, {.flags = N});
     }},
    {"chain_of_empty_parts_without_an_end", "entries free",
     [](PackedGuestRing& guest) {
         for (std::uint32_t offset = 0; offset < 7; ++offset) {
             guest.write_available(offset, {.bytes = 0, .flags = N});
         }
     }},
    {"readable_after_writable", "follows a writable",
     [](PackedGuestRing& guest) {
         guest.write_available(1, {});
         guest.write_available(0, {.flags = N | W});
     }},
    {"buffer_outside_memory", "outside guest memory",
     [](PackedGuestRing& guest) { guest.write_available(0, {.address = 0x10}); }},
    {"indirect_without_the_feature", "VIRTIO_F_INDIRECT_DESC",
     [](PackedGuestRing& guest) {
         guest.write_available(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
     },
     false},
    {"nested_indirect", "names another one",
     [](PackedGuestRing& guest) {
         guest.write_entry(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.write_available(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
     }},
    {"chain_behind_an_indirect_table", "linked with",
     [](PackedGuestRing& guest) {
         guest.write_entry(0, {});
         guest.write_available(0, {.address = guest.table_address(), .bytes = 16, .flags = I | N});
     }},
    {"indirect_table_in_a_chain", "linked with",
     [](PackedGuestRing& guest) {
         guest.write_entry(0, {});
         guest.write_available(1, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.write_available(0, {.flags = N});
     }},
    {"odd_length_of_an_indirect_table", "multiple of 16",
     [](PackedGuestRing& guest) {
         guest.write_available(0, {.address = guest.table_address(), .bytes = 17, .flags = I});
     }},
    {"empty_indirect_table", "multiple of 16",
     [](PackedGuestRing& guest) {
         guest.write_available(0, {.address = guest.table_address(), .bytes = 0, .flags = I});
     }},
    {"indirect_table_of_32769_entries", "32768",
     [](PackedGuestRing& guest) {
         guest.write_available(0, {.address = guest.table_address(), .bytes = 16 * 32769, .flags = I});
     }},
    {"indirect_table_outside_memory", "indirect table lies outside",
     [](PackedGuestRing& guest) { guest.write_available(0, {.address = 0x1000, .bytes = 16, .flags = I}); }},
};

INSTANTIATE_TEST_SUITE_P(PackedQueue, RefusedPackedChains, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(PackedQueue, a_chain_may_not_run_into_entries_that_are_in_flight) {
    PackedGuestRing guest{{.size = 4}};
    guest.write_available(0, {});
    guest.write_available(1, {});
    PackedQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    ASSERT_TRUE(queue.pop(chain).value());
    guest.write_available(3, {.flags = N});
    guest.write_available(0, {}, false);
    guest.write_available(2, {.flags = N});
    EXPECT_EQ(queue.pop(chain).error(), Errno{EPROTO});
}

TEST(PackedQueue, the_buffer_id_is_that_of_the_last_entry_and_comes_back_as_it_is) {
    PackedGuestRing guest{{.size = 7}};
    guest.write_available(1, {.flags = W, .next = 0xfffe});
    guest.write_available(0, {.flags = N, .next = 11});
    PackedQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.ticket.id, 0xfffe);
    EXPECT_EQ(chain.ticket.descriptor_count, 2);
    queue.push(chain.ticket, 9);
    queue.publish();
    EXPECT_EQ(guest.entry(0).id, 0xfffe);
    EXPECT_EQ(guest.entry(0).bytes, 9U);
    EXPECT_EQ(guest.entry(0).flags, kDescAvail | kDescUsed | kDescWrite);
    EXPECT_EQ(queue.base(), 0x8002'8002U);
}

TEST(PackedQueue, a_batch_shows_from_its_first_element_on_only_when_published) {
    PackedGuestRing guest{{.size = 7}};
    for (std::uint16_t offset = 0; offset < 3; ++offset) guest.write_available(offset, {.next = offset});
    PackedQueue queue = queue_of(guest);
    Chain chains[3];
    for (Chain& chain : chains) ASSERT_TRUE(queue.pop(chain).value());
    for (const Chain& chain : chains) queue.push(chain.ticket, 0);
    EXPECT_FALSE(packed_used(guest.entry(0).flags, true));
    EXPECT_TRUE(packed_used(guest.entry(1).flags, true));
    EXPECT_TRUE(queue.publish());
    EXPECT_TRUE(packed_used(guest.entry(0).flags, true));
}

TEST(PackedQueue, indirect_table_longer_than_the_ring_is_accepted) {
    PackedGuestRing guest{{.size = 7, .indirect = true}};
    constexpr std::uint32_t kEntries = 514;
    // Packed tables are read in order; stray NEXT flags and ids mean nothing.
    for (std::uint32_t index = 0; index < kEntries; ++index) {
        guest.write_entry(index, {.flags = static_cast<std::uint16_t>(N | (index > 0 ? W : 0)), .next = 77},
                          5);
    }
    guest.write_available(
        0, {.address = guest.table_address(5), .bytes = 16 * kEntries, .flags = I | W, .next = 4});
    PackedQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable.size(), 1U);
    EXPECT_EQ(chain.writable.size(), 513U);
    EXPECT_EQ(chain.ticket.id, 4);
    EXPECT_EQ(chain.ticket.descriptor_count, 1);
}

TEST(PackedQueue, giving_back_more_than_was_taken_breaks_the_queue_and_writes_nothing) {
    PackedGuestRing guest{{.size = 7}};
    PackedQueue queue = queue_of(guest);
    queue.push({.id = 1, .descriptor_count = 1}, 5);
    EXPECT_TRUE(queue.broken());
    EXPECT_FALSE(queue.publish());
    EXPECT_EQ(guest.entry(0).bytes, 0U);
}

TEST(PackedQueue, kick_suppression_is_written_to_the_device_area) {
    PackedGuestRing guest{{.size = 7, .event_idx = true}};
    PackedQueue queue = queue_of(guest);
    queue.suppress_kicks();
    EXPECT_EQ(guest.device_event() >> 16, kEventDisable);
    EXPECT_FALSE(queue.enable_kicks());
    EXPECT_EQ(guest.device_event(), packed_event_word(0x8000, kEventDesc));
}

TEST(PackedQueue, a_reserved_suppression_flag_counts_as_always) {
    PackedGuestRing guest{{.size = 7, .event_idx = true}};
    guest.driver_event() = packed_event_word(5, 3);
    guest.write_available(0, {});
    guest.write_available(1, {});
    PackedQueue queue = queue_of(guest);
    Chain chain;
    for (int count = 0; count < 2; ++count) {
        ASSERT_TRUE(queue.pop(chain).value());
        queue.push(chain.ticket, 0);
        EXPECT_TRUE(queue.publish());
    }
}

TEST(PackedQueue, sizes_and_bases_the_format_does_not_allow_are_refused) {
    PackedGuestRing guest{{.size = 32768}};
    const auto made = [&](std::uint32_t size, std::uint32_t base) {
        QueueLayout layout = guest.layout();
        layout.size = size;
        layout.base = base;
        return PackedQueue::make(guest.memory(), layout).has_value();
    };
    EXPECT_FALSE(made(0, 0x8000'8000U));
    EXPECT_FALSE(made(32769, 0x8000'8000U));
    for (const std::uint32_t size : {1U, 7U, 100U, 32768U}) EXPECT_TRUE(made(size, 0x8000'8000U)) << size;
    EXPECT_FALSE(made(7, 0x8000'8007U)) << "available offset beyond the ring";
    EXPECT_FALSE(made(7, 0x8007'8000U)) << "used offset beyond the ring";
    EXPECT_FALSE(made(7, 0x8001'8000U)) << "used ahead of available";
    EXPECT_FALSE(made(7, 0x8000'0001U)) << "more than a ring apart";
    EXPECT_TRUE(made(7, 0x8001'0001U)) << "a whole ring in flight";
}

TEST(PackedQueue, parts_that_are_misaligned_or_outside_memory_are_refused) {
    PackedGuestRing guest;
    const auto refused = [&](auto change) {
        QueueLayout layout = guest.layout();
        change(layout);
        const auto made = PackedQueue::make(guest.memory(), layout);
        return !made && made.error() == Errno{EINVAL};
    };
    const std::uint64_t end = PageMemory::kUserStart + guest.memory().regions()[0].bytes;
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.descriptor_area += 8; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.driver_area += 2; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.device_area += 1; }));
    EXPECT_TRUE(refused([&](QueueLayout& layout) { layout.descriptor_area = end - 112; }));
    EXPECT_TRUE(refused([&](QueueLayout& layout) { layout.device_area = end; }));
    EXPECT_FALSE(refused([](QueueLayout&) {}));
}

} // namespace
} // namespace viaduct::virtio
