// SPDX-License-Identifier: Apache-2.0
//
// Split queue, device side, against a guest that writes what it likes.
#include "virtio/split_queue.h"

#include "unit/virtio/guest_ring.h"

#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <optional>

namespace viaduct::virtio {
namespace {

using testing::HasSubstr;

SplitQueue queue_of(const GuestRing& guest) {
    return SplitQueue::make(guest.memory(), guest.layout()).value();
}

// Pops what must be refused and checks that the queue stays down and quiet.
void expect_refused(const GuestRing& guest, SplitQueue& queue, const char* reason) {
    Chain chain;
    const std::uint32_t base = queue.base();
    const auto popped = queue.pop(chain);
    ASSERT_FALSE(popped);
    EXPECT_EQ(popped.error(), Errno{EPROTO});
    EXPECT_TRUE(queue.broken());
    EXPECT_THAT(queue.reason(), HasSubstr(reason));
    EXPECT_FALSE(queue.has_work()) << "a worker would spin on it";
    EXPECT_FALSE(queue.enable_kicks());
    EXPECT_EQ(queue.pop(chain).error(), Errno{EPROTO});
    EXPECT_EQ(queue.base(), base) << "GET_VRING_BASE still names the chain that was refused";
    EXPECT_EQ(guest.used().idx, guest.layout().base) << "nothing was given back";
}

struct Refusal {
    const char* name;
    const char* reason;
    std::function<void(GuestRing&)> write;
    bool indirect = true;
};

class RefusedChains : public testing::TestWithParam<Refusal> {};

TEST_P(RefusedChains, breaks_the_queue_and_a_new_one_serves) {
    GuestRing guest{{.size = 8, .indirect = GetParam().indirect}};
    GetParam().write(guest);
    SplitQueue queue = queue_of(guest);
    expect_refused(guest, queue, GetParam().reason);

    guest.set_avail_idx(0);
    guest.write_descriptor(3, {});
    guest.offer(3);
    SplitQueue again = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(again.pop(chain).value());
    EXPECT_EQ(chain.ticket.id, 3);
}

constexpr std::uint16_t N = kDescNext;
constexpr std::uint16_t W = kDescWrite;
constexpr std::uint16_t I = kDescIndirect;

const Refusal kRefusals[] = {
    {"self_loop", "loops",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.flags = N, .next = 0});
         guest.offer(0);
     }},
    {"two_element_loop", "loops",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.flags = N, .next = 1});
         guest.write_descriptor(1, {.flags = N, .next = 0});
         guest.offer(0);
     }},
    {"loop_of_empty_parts", "loops",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.bytes = 0, .flags = N, .next = 0});
         guest.offer(0);
     }},
    {"next_beyond_the_table", "out of the descriptor table",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.flags = N, .next = 8});
         guest.offer(0);
     }},
    {"head_equal_to_the_size", "head", [](GuestRing& guest) { guest.offer(8); }},
    {"head_0xffff", "head", [](GuestRing& guest) { guest.offer(0xffff); }},
    {"readable_after_writable", "follows a writable",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.flags = N | W, .next = 1});
         guest.write_descriptor(1, {});
         guest.offer(0);
     }},
    {"readable_after_an_empty_writable", "follows a writable",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.bytes = 0, .flags = N | W, .next = 1});
         guest.write_descriptor(1, {});
         guest.offer(0);
     }},
    {"buffer_outside_memory", "outside guest memory",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = 0x10});
         guest.offer(0);
     }},
    {"buffer_across_the_end_of_memory", "outside guest memory",
     [](GuestRing& guest) {
         const std::uint64_t end = PageMemory::kGuestStart + guest.memory().regions()[0].bytes;
         guest.write_descriptor(0, {.address = end - 8});
         guest.offer(0);
     }},
    {"buffer_that_wraps_the_address_space", "outside guest memory",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = ~0ULL, .bytes = 0xffff'ffff});
         guest.offer(0);
     }},
    {"avail_idx_ahead_by_size_and_one", "avail.idx", [](GuestRing& guest) { guest.set_avail_idx(9); }},
    {"avail_idx_behind", "avail.idx", [](GuestRing& guest) { guest.set_avail_idx(0xffff); }},
    {"indirect_without_the_feature", "VIRTIO_F_INDIRECT_DESC",
     [](GuestRing& guest) {
         guest.write_entry(0, {});
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.offer(0);
     },
     false},
    {"nested_indirect", "names another one",
     [](GuestRing& guest) {
         guest.write_entry(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.offer(0);
     }},
    {"chain_behind_an_indirect_table", "goes on behind",
     [](GuestRing& guest) {
         guest.write_entry(0, {});
         guest.write_descriptor(0,
                                {.address = guest.table_address(), .bytes = 16, .flags = I | N, .next = 1});
         guest.write_descriptor(1, {});
         guest.offer(0);
     }},
    {"empty_indirect_table", "multiple of 16",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 0, .flags = I});
         guest.offer(0);
     }},
    {"odd_length_of_an_indirect_table", "multiple of 16",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 24, .flags = I});
         guest.offer(0);
     }},
    {"indirect_table_of_32769_entries", "32768",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 16 * 32769, .flags = I});
         guest.offer(0);
     }},
    {"indirect_table_of_4_gib", "32768",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 0xffff'fff0, .flags = I});
         guest.offer(0);
     }},
    {"indirect_table_outside_memory", "indirect table lies outside",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.address = 0x1000, .bytes = 32, .flags = I});
         guest.offer(0);
     }},
    {"loop_in_an_indirect_table", "loops in an indirect table",
     [](GuestRing& guest) {
         guest.write_entry(0, {.flags = N, .next = 1});
         guest.write_entry(1, {.flags = N, .next = 0});
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 32, .flags = I});
         guest.offer(0);
     }},
    {"link_out_of_an_indirect_table", "out of an indirect table",
     [](GuestRing& guest) {
         guest.write_entry(0, {.flags = N, .next = 2});
         guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 32, .flags = I});
         guest.offer(0);
     }},
    {"readable_table_entry_behind_a_writable_descriptor", "follows a writable",
     [](GuestRing& guest) {
         guest.write_descriptor(0, {.flags = N | W, .next = 1});
         guest.write_entry(0, {});
         guest.write_descriptor(1, {.address = guest.table_address(), .bytes = 16, .flags = I});
         guest.offer(0);
     }},
};

INSTANTIATE_TEST_SUITE_P(SplitQueue, RefusedChains, testing::ValuesIn(kRefusals),
                         [](const auto& info) { return std::string{info.param.name}; });

TEST(SplitQueue, chain_of_exactly_the_queue_size_is_accepted) {
    GuestRing guest{{.size = 128}};
    for (std::uint16_t index = 0; index < 128; ++index) {
        const auto flags = static_cast<std::uint16_t>((index < 127 ? N : 0) | (index >= 64 ? W : 0));
        guest.write_descriptor(index, {.flags = flags, .next = static_cast<std::uint16_t>(index + 1)});
    }
    guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable.size(), 64U);
    EXPECT_EQ(chain.writable.size(), 64U);
    EXPECT_EQ(chain.ticket.descriptor_count, 128);
}

TEST(SplitQueue, headers_cut_into_descriptors_of_one_byte_arrive_in_order) {
    GuestRing guest{{.size = 128}};
    for (std::uint16_t index = 0; index < 100; ++index) {
        *guest.host(index) = static_cast<std::byte>(index);
        const auto flags = static_cast<std::uint16_t>((index < 99 ? N : 0) | (index >= 80 ? W : 0));
        guest.write_descriptor(index, {.address = PageMemory::kGuestStart + index,
                                       .bytes = 1,
                                       .flags = flags,
                                       .next = static_cast<std::uint16_t>(index + 1)});
    }
    guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    ASSERT_EQ(chain.readable_bytes, 80U);
    ASSERT_EQ(chain.writable_bytes, 20U);
    for (std::size_t index = 0; index < 80; ++index) {
        EXPECT_EQ(*static_cast<std::byte*>(chain.readable[index].iov_base), static_cast<std::byte>(index));
    }
}

TEST(SplitQueue, parts_without_bytes_are_left_out_and_their_address_does_not_matter) {
    GuestRing guest;
    guest.write_descriptor(0, {.address = 1, .bytes = 0, .flags = N, .next = 1});
    guest.write_descriptor(1, {.flags = N, .next = 2});
    guest.write_descriptor(2, {.address = 2, .bytes = 0, .flags = W});
    guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable.size(), 1U);
    EXPECT_TRUE(chain.writable.empty());
}

TEST(SplitQueue, indirect_table_longer_than_the_ring_is_accepted) {
    GuestRing guest{{.size = 8, .indirect = true}};
    constexpr std::uint16_t kEntries = 514;
    for (std::uint16_t index = 0; index < kEntries; ++index) {
        const auto flags = static_cast<std::uint16_t>((index + 1 < kEntries ? N : 0) | (index > 0 ? W : 0));
        guest.write_entry(index, {.flags = flags, .next = static_cast<std::uint16_t>(index + 1)});
    }
    guest.write_descriptor(5, {.address = guest.table_address(), .bytes = 16 * kEntries, .flags = I});
    guest.offer(5);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable.size(), 1U);
    EXPECT_EQ(chain.writable.size(), 513U);
    EXPECT_EQ(chain.ticket.id, 5);
    EXPECT_EQ(chain.ticket.descriptor_count, 1);
}

TEST(SplitQueue, indirect_table_of_32768_entries_is_accepted) {
    GuestRing guest{{.size = 8, .indirect = true}};
    for (std::uint32_t index = 0; index < 32768; ++index) {
        const std::uint16_t flags = index + 1 < 32768 ? N : 0;
        guest.write_entry(index, {.flags = flags, .next = static_cast<std::uint16_t>(index + 1)});
    }
    guest.write_descriptor(0, {.address = guest.table_address(), .bytes = 16 * 32768, .flags = I});
    guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable.size(), 32768U);
}

TEST(SplitQueue, direct_descriptors_may_lead_to_an_indirect_table_at_an_odd_address) {
    GuestRing guest{{.size = 8, .indirect = true}};
    guest.write_descriptor(0, {.flags = N, .next = 1});
    guest.write_descriptor(1, {.address = guest.table_address(3), .bytes = 48, .flags = I | W});
    guest.write_entry(0, {.bytes = 1, .flags = N, .next = 2}, 3);
    guest.write_entry(2, {.bytes = 2, .flags = W}, 3);
    guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    EXPECT_EQ(chain.readable_bytes, 17U);
    EXPECT_EQ(chain.writable_bytes, 2U);
    EXPECT_EQ(chain.ticket.descriptor_count, 2);
}

// The memory is not there to be touched: only lengths are added up.
TEST(SplitQueue, a_chain_of_4_gib_is_accepted_and_one_byte_more_refused) {
    GuestRing guest;
    std::vector<MemoryRegion> regions = guest.memory().regions();
    regions.push_back({.guest_address = GuestAddress{0x20'0000'0000},
                       .user_address = 0x20'0000'0000,
                       .bytes = 1ULL << 32,
                       .host = guest.host(0)});
    const GuestMemory memory = GuestMemory::make(regions).value();
    for (const std::uint32_t rest : {0x8000'0000U, 0x8000'0001U}) {
        SplitQueue queue = SplitQueue::make(memory, guest.layout()).value();
        guest.write_descriptor(0, {.address = 0x20'0000'0000, .bytes = 0x8000'0000, .flags = N, .next = 1});
        guest.write_descriptor(1, {.address = 0x20'0000'0000, .bytes = rest, .flags = W});
        guest.set_avail_idx(0);
        guest.offer(0);
        Chain chain;
        const auto popped = queue.pop(chain);
        EXPECT_EQ(popped.has_value(), rest == 0x8000'0000U);
        if (popped) {
            EXPECT_EQ(chain.readable_bytes + chain.writable_bytes, 1ULL << 32);
        } else {
            EXPECT_THAT(queue.reason(), HasSubstr("4 GiB"));
        }
    }
}

TEST(SplitQueue, a_buffer_that_runs_across_regions_becomes_several_segments) {
    GuestRing guest;
    std::vector<MemoryRegion> regions = guest.memory().regions();
    const std::uint64_t end = PageMemory::kGuestStart + regions[0].bytes;
    std::vector<std::byte> more(64);
    regions.push_back(
        {.guest_address = GuestAddress{end}, .user_address = 0x1000, .bytes = 64, .host = more.data()});
    const GuestMemory memory = GuestMemory::make(regions).value();
    guest.write_descriptor(0, {.address = end - 6, .bytes = 16});
    guest.offer(0);
    SplitQueue queue = SplitQueue::make(memory, guest.layout()).value();
    Chain chain;
    ASSERT_TRUE(queue.pop(chain).value());
    ASSERT_EQ(chain.readable.size(), 2U);
    EXPECT_EQ(chain.readable[0].iov_len, 6U);
    EXPECT_EQ(chain.readable[1].iov_base, more.data());
    EXPECT_EQ(chain.readable[1].iov_len, 10U);
    EXPECT_EQ(chain.readable_bytes, 16U);
}

TEST(SplitQueue, chains_that_were_taken_and_not_given_back_count_against_the_ring) {
    GuestRing guest{{.size = 8}};
    guest.write_descriptor(0, {});
    for (int count = 0; count < 8; ++count) guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    for (int count = 0; count < 8; ++count) ASSERT_TRUE(queue.pop(chain).value());
    queue.push(chain.ticket, 0);
    guest.offer(0);
    ASSERT_TRUE(queue.pop(chain).value()) << "one was given back, one more may come";
    guest.offer(0);
    expect_refused(guest, queue, "avail.idx");
}

TEST(SplitQueue, an_index_that_breaks_the_queue_is_work_once_so_that_pop_tells) {
    GuestRing guest{{.size = 8}};
    SplitQueue queue = queue_of(guest);
    for (int count = 0; count < 9; ++count) guest.offer(0);
    EXPECT_TRUE(queue.has_work());
    expect_refused(guest, queue, "avail.idx");
    EXPECT_FALSE(queue.has_work());
}

TEST(SplitQueue, what_an_earlier_queue_took_counts_for_the_next_one) {
    GuestRing guest{{.size = 8}};
    guest.write_descriptor(0, {});
    guest.used().idx = static_cast<std::uint16_t>(-5); // base 0: five are out
    for (int count = 0; count < 3; ++count) guest.offer(0);
    SplitQueue queue = queue_of(guest);
    Chain chain;
    for (int count = 0; count < 3; ++count) ASSERT_TRUE(queue.pop(chain).value());
    guest.offer(0);
    EXPECT_EQ(queue.pop(chain).error(), Errno{EPROTO});
}

TEST(SplitQueue, a_broken_queue_still_gives_back_what_it_took_before) {
    GuestRing guest;
    guest.write_descriptor(0, {});
    guest.offer(0);
    guest.offer(99);
    SplitQueue queue = queue_of(guest);
    Chain good;
    Chain bad;
    ASSERT_TRUE(queue.pop(good).value());
    ASSERT_FALSE(queue.pop(bad));
    queue.push(good.ticket, 0);
    EXPECT_TRUE(queue.publish());
    EXPECT_EQ(guest.used().idx, 1);
}

class SplitQueueWrap : public testing::TestWithParam<std::uint32_t> {};

TEST_P(SplitQueueWrap, passes_65535_from_base_65530_without_losing_a_request) {
    constexpr std::uint32_t kRequests = 140'000;
    GuestRing guest{{.size = GetParam(), .event_idx = true, .base = 65530}};
    for (std::uint16_t index = 0; index < GetParam(); ++index) guest.write_descriptor(index, {.flags = W});
    SplitQueue queue = queue_of(guest);
    Chain chain;
    std::uint16_t expected = 65530;
    std::uint32_t done = 0;
    for (std::uint32_t batch = 1; done < kRequests; batch = batch % GetParam() + 1) {
        guest.used_event() = static_cast<std::uint16_t>(expected + batch - 1);
        for (std::uint32_t count = 0; count < batch; ++count) {
            guest.offer(static_cast<std::uint16_t>((done + count) % GetParam()));
        }
        for (std::uint32_t count = 0; count < batch; ++count) {
            ASSERT_TRUE(queue.pop(chain).value()) << queue.reason();
            ASSERT_EQ(chain.ticket.id, (done + count) % GetParam());
            queue.push(chain.ticket, count);
        }
        ASSERT_FALSE(queue.pop(chain).value());
        ASSERT_TRUE(queue.publish()) << "used_event was the last of the batch";
        for (std::uint32_t count = 0; count < batch; ++count) {
            const UsedElement& element =
                guest.used().ring()[static_cast<std::uint16_t>(expected + count) % GetParam()];
            ASSERT_EQ(element.id, (done + count) % GetParam());
            ASSERT_EQ(element.bytes, count);
        }
        expected = static_cast<std::uint16_t>(expected + batch);
        done += batch;
        ASSERT_EQ(guest.used().idx, expected);
        ASSERT_FALSE(queue.enable_kicks());
        ASSERT_EQ(guest.avail_event(), expected);
    }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SplitQueueWrap, testing::Values(8U, 1024U));

TEST(SplitQueue, used_event_far_ahead_keeps_the_signals_away) {
    GuestRing guest{{.size = 64, .event_idx = true}};
    guest.write_descriptor(0, {});
    SplitQueue queue = queue_of(guest);
    Chain chain;
    const auto serve = [&] {
        guest.offer(0);
        EXPECT_TRUE(queue.pop(chain).value());
        queue.push(chain.ticket, 0);
        return queue.publish();
    };
    guest.used_event() = 1000;
    EXPECT_TRUE(serve()) << "the first publication signals";
    for (int count = 1; count < 1000; ++count) ASSERT_FALSE(serve()) << count;
    EXPECT_TRUE(serve()) << "this one passes index 1000";
    EXPECT_FALSE(serve());
}

TEST(SplitQueue, with_event_idx_the_flags_of_both_rings_mean_nothing) {
    GuestRing guest{{.size = 8, .event_idx = true}};
    guest.write_descriptor(0, {});
    guest.avail().flags = kAvailNoInterrupt;
    SplitQueue queue = queue_of(guest);
    queue.suppress_kicks();
    EXPECT_EQ(guest.used().flags, 0);
    Chain chain;
    for (std::uint16_t count = 0; count < 3; ++count) {
        guest.used_event() = count;
        guest.offer(0);
        ASSERT_TRUE(queue.pop(chain).value());
        queue.push(chain.ticket, 0);
        EXPECT_TRUE(queue.publish());
    }
}

TEST(SplitQueue, kicks_left_off_by_an_earlier_queue_are_on_again_after_enabling) {
    GuestRing guest;
    guest.used().flags = kUsedNoNotify;
    SplitQueue queue = queue_of(guest);
    EXPECT_FALSE(queue.enable_kicks());
    EXPECT_EQ(guest.used().flags, 0);
    queue.suppress_kicks();
    EXPECT_EQ(guest.used().flags, kUsedNoNotify);
}

TEST(SplitQueue, sizes_the_format_does_not_allow_are_refused) {
    GuestRing guest;
    for (const std::uint32_t size : {0U, 3U, 7U, 100U, 32769U, 65536U}) {
        QueueLayout layout = guest.layout();
        layout.size = size;
        EXPECT_EQ(SplitQueue::make(guest.memory(), layout).error(), Errno{EINVAL}) << size;
    }
    for (const std::uint32_t size : {1U, 2U, 8U}) {
        QueueLayout layout = guest.layout();
        layout.size = size;
        EXPECT_TRUE(SplitQueue::make(guest.memory(), layout)) << size;
    }
}

TEST(SplitQueue, parts_that_are_misaligned_or_outside_memory_are_refused) {
    GuestRing guest;
    const QueueLayout good = guest.layout();
    const auto refused = [&](auto change) {
        QueueLayout layout = good;
        change(layout);
        const auto made = SplitQueue::make(guest.memory(), layout);
        return !made && made.error() == Errno{EINVAL};
    };
    const std::uint64_t end = PageMemory::kUserStart + guest.memory().regions()[0].bytes;
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.descriptor_area += 8; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.driver_area += 1; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.device_area += 2; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.descriptor_area = 0; }));
    EXPECT_TRUE(refused([&](QueueLayout& layout) { layout.descriptor_area = end - 112; }));
    EXPECT_TRUE(refused([&](QueueLayout& layout) { layout.driver_area = end - 20; }));
    EXPECT_TRUE(refused([&](QueueLayout& layout) { layout.device_area = end - 68; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.driver_area = ~0ULL - 1; }));
    EXPECT_TRUE(refused([](QueueLayout& layout) { layout.base = 0x10000; }));
    EXPECT_FALSE(refused([](QueueLayout&) {}));
}

} // namespace
} // namespace viaduct::virtio
