// SPDX-License-Identifier: Apache-2.0
//
// Driver queues against a device that lies, and what add() refuses.
#include "virtio/driver_queue.h"

#include "unit/virtio/page_memory.h"
#include "unit/virtio/queue_pair.h"
#include "virtio/ring_format.h"

#include <gtest/gtest.h>

namespace viaduct::virtio {
namespace {

// A driver queue and the hands of a device that writes what it likes.
class LyingDevice {
public:
    explicit LyingDevice(const DriverQueueOptions& options) : pair_(options), options_(options) {}

    QueuePair& pair() { return pair_; }
    DriverQueue& driver() { return pair_.driver(); }
    // Gives `id` back as the next used element.
    void give_back(std::uint32_t id, std::uint32_t written_bytes) {
        if (options_.packed) {
            PackedDescriptor& element = reinterpret_cast<PackedDescriptor*>(pair_.memory().at(0))[next_];
            element.id = static_cast<std::uint16_t>(id);
            element.bytes = written_bytes;
            element.flags = packed_used_flags(true);
        } else {
            used().ring()[next_] = {.id = id, .bytes = written_bytes};
            used().idx = static_cast<std::uint16_t>(next_ + 1);
        }
        ++next_;
    }
    UsedRing& used() {
        return *reinterpret_cast<UsedRing*>(pair_.memory().at(driver().addresses().device_area));
    }

private:
    QueuePair pair_;
    DriverQueueOptions options_;
    std::uint32_t next_ = 0;
};

class DriverQueues : public testing::TestWithParam<DriverQueueOptions> {
protected:
    static void expect_broken(DriverQueue& driver) {
        EXPECT_EQ(driver.poll().error(), Errno{EIO});
        EXPECT_EQ(driver.poll().error(), Errno{EIO}) << "for good";
        EXPECT_TRUE(driver.enable_interrupts()) << "no one may wait for it";
        const GuestRange range[] = {{.address = PageMemory::guest(0), .bytes = 1}};
        EXPECT_EQ(driver.add(range, {}, nullptr).error(), Errno{EIO});
    }
};

TEST_P(DriverQueues, an_id_beyond_the_ring_is_a_lie) {
    LyingDevice device{GetParam()};
    ASSERT_TRUE(device.pair().add(1));
    device.give_back(GetParam().size, 0);
    expect_broken(device.driver());
}

TEST_P(DriverQueues, an_id_that_is_not_out_is_a_lie) {
    LyingDevice device{GetParam()};
    ASSERT_TRUE(device.pair().add(1));
    device.give_back(GetParam().size - 1, 0);
    expect_broken(device.driver());
}

TEST_P(DriverQueues, giving_back_a_chain_twice_is_a_lie) {
    LyingDevice device{GetParam()};
    ASSERT_TRUE(device.pair().add(1));
    ASSERT_TRUE(device.pair().add(2));
    device.give_back(0, 0);
    EXPECT_TRUE(device.driver().poll().value());
    if (GetParam().packed && !GetParam().indirect) {
        // The chain took two entries: the next element is looked for behind them.
        device.give_back(0, 0);
    }
    device.give_back(0, 0);
    expect_broken(device.driver());
}

TEST_P(DriverQueues, more_bytes_written_than_there_was_room_for_is_a_lie) {
    LyingDevice device{GetParam()};
    ASSERT_TRUE(device.pair().add(1));
    device.give_back(0, 105);
    expect_broken(device.driver());

    LyingDevice honest{GetParam()};
    ASSERT_TRUE(honest.pair().add(1));
    honest.give_back(0, 104);
    EXPECT_EQ((*honest.driver().poll())->written_bytes, 104U);
}

TEST_P(DriverQueues, a_device_that_scribbles_over_the_descriptors_does_not_mislead_the_driver) {
    QueuePair pair{GetParam()};
    for (int round = 0; round < 50; ++round) {
        ASSERT_TRUE(pair.add(1));
        ASSERT_TRUE(pair.add(2));
        Chain first;
        Chain second;
        ASSERT_TRUE(pair.device().pop(first).value());
        ASSERT_TRUE(pair.device().pop(second).value());
        if (!GetParam().packed)
            std::memset(pair.memory().at(0), 0xff, split_descriptor_bytes(GetParam().size));
        pair.device().push(second.ticket, 0);
        pair.device().push(first.ticket, 0);
        pair.device().publish();
        ASSERT_TRUE(pair.driver().poll().value());
        ASSERT_TRUE(pair.driver().poll().value());
    }
    EXPECT_EQ(pair.driver().free_descriptors(), GetParam().size);
}

TEST_P(DriverQueues, empty_chains_and_chains_longer_than_the_format_allows_are_refused) {
    QueuePair pair{GetParam()};
    EXPECT_EQ(pair.driver().add({}, {}, nullptr).error(), Errno{EINVAL});
    const std::uint32_t most = GetParam().indirect ? DriverQueue::kIndirectEntriesMax : GetParam().size;
    std::vector<GuestRange> ranges(most + 1, pair.data(0, 1));
    EXPECT_EQ(pair.driver().add(ranges, {}, nullptr).error(), Errno{EINVAL});
    ranges.pop_back();
    ASSERT_TRUE(pair.driver().add(ranges, {}, nullptr));
    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());
    EXPECT_EQ(chain.readable.size(), most);
}

TEST_P(DriverQueues, a_chain_of_one_descriptor_needs_no_indirect_table) {
    QueuePair pair{GetParam()};
    const GuestRange range[] = {pair.data(8, 24)};
    ASSERT_TRUE(pair.driver().add(range, {}, nullptr));
    Chain chain;
    ASSERT_TRUE(pair.device().pop(chain).value());
    EXPECT_EQ(chain.readable[0].iov_base, pair.data_host(8));
    const auto* const first = reinterpret_cast<const PackedDescriptor*>(pair.memory().at(0));
    EXPECT_EQ(first->address, static_cast<std::uint64_t>(range[0].address));
}

INSTANTIATE_TEST_SUITE_P(EveryFormat, DriverQueues,
                         testing::Values(DriverQueueOptions{.size = 8},
                                         DriverQueueOptions{.event_idx = true, .size = 8},
                                         DriverQueueOptions{.indirect = true, .size = 8},
                                         DriverQueueOptions{.packed = true, .size = 7},
                                         DriverQueueOptions{.packed = true, .event_idx = true, .size = 7},
                                         DriverQueueOptions{.packed = true, .indirect = true, .size = 7}),
                         [](const auto& info) { return name_of(info.param); });

TEST(SplitDriverQueue, a_used_index_further_ahead_than_chains_are_out_is_a_lie) {
    LyingDevice device{{.size = 8}};
    ASSERT_TRUE(device.pair().add(1));
    device.used().idx = 2;
    EXPECT_EQ(device.driver().poll().error(), Errno{EIO});
}

TEST(SplitDriverQueue, a_batch_is_shown_to_the_device_in_steps_of_eight) {
    QueuePair pair{{.size = 16}};
    const GuestRange readable[] = {pair.data(0, 80)};
    for (int count = 0; count < 7; ++count) ASSERT_TRUE(pair.driver().stage(readable, {}, nullptr));
    EXPECT_FALSE(pair.device().has_work());
    ASSERT_TRUE(pair.driver().stage(readable, {}, nullptr));
    Chain chain;
    for (int count = 0; count < 8; ++count) EXPECT_TRUE(pair.device().pop(chain).value());
    EXPECT_FALSE(pair.device().pop(chain).value());
}

TEST(PackedDriverQueue, elements_that_no_chain_is_out_for_are_not_looked_at) {
    LyingDevice device{{.packed = true, .size = 7}};
    device.give_back(0, 0);
    EXPECT_FALSE(device.driver().poll()->has_value());
}

} // namespace
} // namespace viaduct::virtio
