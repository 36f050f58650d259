// SPDX-License-Identifier: Apache-2.0
//
// Indexes of a ring: impossible ones stop the queue, right ones pass 65535 and every wrap without loss.
#include "support/raw_guest.h"
#include "support/raw_ring.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;

class AvailIndex : public testing::Test {
protected:
    std::unique_ptr<RawGuest> connect(std::uint32_t size, bool packed = false, bool event_idx = false) {
        return RawGuest::connect({.socket = share.socket(),
                                  .queues = 3,
                                  .size = size,
                                  .packed = packed,
                                  .event_idx = event_idx,
                                  .indirect = false});
    }
    // Two descriptors for each of half as many requests as the ring has entries.
    static void fill_descriptors(RawGuest& guest, SplitRing& ring, std::uint32_t size) {
        const auto request = getattr_request();
        for (std::uint16_t slot = 0; slot < size / 2; ++slot) {
            const std::uint64_t offset = guest.piece_offset(1, slot);
            std::memcpy(guest.at(offset), request.data(), request.size());
            ring.descriptor(2U * slot) = {RawGuest::address(offset),
                                          static_cast<std::uint32_t>(request.size()), virtio::kDescNext,
                                          static_cast<std::uint16_t>(2 * slot + 1)};
            ring.descriptor(2U * slot + 1) = {RawGuest::address(offset + 2048), 1024, virtio::kDescWrite, 0};
        }
    }
    // The queue is broken, the others and the daemon are not, and a new start works.
    static void expect_broken(RawGuest& guest) {
        EXPECT_TRUE(readable_within(guest.error_fd(1), kPatience));
        EXPECT_TRUE(guest.serves(2));
        EXPECT_TRUE(guest.front_end().get_vring_base(1));
        read_event(guest.error_fd(1));
        EXPECT_TRUE(guest.start_session(1));
        EXPECT_TRUE(guest.serves(1));
        EXPECT_FALSE(readable_within(guest.error_fd(1), 0ms));
    }
    ServedShare share;
};

TEST_F(AvailIndex, one_that_is_further_ahead_than_the_ring_is_long_breaks_the_queue) {
    for (const std::uint32_t size : {8U, 1024U}) {
        const auto guest = connect(size);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(2));
        for (const std::uint32_t jump : {size + 1, size + 2, 2 * size, 0x8000U, 0xffffU}) {
            SCOPED_TRACE(testing::Message() << "size " << size << ", jump " << jump);
            guest->lay_out(1);
            SplitRing ring{*guest, 1, size};
            fill_descriptors(*guest, ring, size);
            ASSERT_TRUE(guest->start(1));
            ring.publish(static_cast<std::uint16_t>(jump));
            guest->kick(1);
            expect_broken(*guest);
            ASSERT_TRUE(guest->front_end().get_vring_base(1));
        }
        // Backwards, after some requests.
        ASSERT_TRUE(guest->start_session(1));
        ASSERT_TRUE(guest->serves(1));
        SplitRing{*guest, 1, size}.publish(1);
        guest->kick(1);
        EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
        EXPECT_TRUE(guest->serves(2));
    }
}

TEST_F(AvailIndex, a_head_outside_the_table_breaks_the_queue) {
    for (const std::uint32_t size : {8U, 1024U}) {
        const auto guest = connect(size);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(2));
        for (const std::uint32_t head : {size, size + 1, 0x7fffU, 0x8000U, 0xffffU}) {
            SCOPED_TRACE(testing::Message() << "size " << size << ", head " << head);
            guest->lay_out(1);
            SplitRing ring{*guest, 1, size};
            fill_descriptors(*guest, ring, size);
            ASSERT_TRUE(guest->start(1));
            ring.offer(0);
            ring.offer(static_cast<std::uint16_t>(head));
            ring.offer(2);
            ring.publish();
            guest->kick(1);
            EXPECT_TRUE(readable_within(guest->error_fd(1), kPatience));
            EXPECT_LE(ring.used_index(), 1U); // what stood before it may be answered
            expect_broken(*guest);
            ASSERT_TRUE(guest->front_end().get_vring_base(1));
        }
    }
}

TEST_F(AvailIndex, exactly_as_many_as_the_ring_is_long_are_served) {
    for (const std::uint32_t size : {8U, 1024U}) {
        const auto guest = connect(size);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(2));
        // One descriptor each, which is a FORGET: nothing is answered.
        const auto forget = FuseMessage{FUSE_FORGET, 1}.with(fuse_forget_in{.nlookup = 0}).bytes();
        const std::uint64_t offset = guest->piece_offset(1, 0);
        std::memcpy(guest->at(offset), forget.data(), forget.size());
        SplitRing ring{*guest, 1, size};
        for (std::uint16_t index = 0; index < size; ++index) {
            ring.descriptor(index) = {RawGuest::address(offset), static_cast<std::uint32_t>(forget.size()), 0,
                                      0};
            ring.offer(index);
        }
        ring.publish();
        ASSERT_TRUE(guest->start(1));
        while (ring.used_index() != size) {
            ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience)) << ring.used_index();
            read_event(guest->call_fd(1));
        }
        for (std::uint16_t index = 0; index < size; ++index) EXPECT_EQ(ring.used(index).bytes, 0U);
        EXPECT_FALSE(readable_within(guest->error_fd(1), 0ms));
    }
}

TEST_F(AvailIndex, a_long_run_from_just_before_the_wrap_of_16_bits_loses_nothing) {
    for (const std::uint32_t size : {8U, 1024U}) {
        SCOPED_TRACE(size);
        constexpr std::uint16_t kBase = 65530;
        constexpr std::uint32_t kRequests = 140'000;
        const auto guest = connect(size);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(2));
        SplitRing ring{*guest, 1, size, kBase};
        fill_descriptors(*guest, ring, size);
        ASSERT_TRUE(guest->start(1, kBase));

        std::uint32_t offered = 0;
        std::uint32_t done = 0;
        std::vector<bool> in_flight(size / 2);
        std::vector<std::uint16_t> free;
        for (std::uint16_t slot = 0; slot < size / 2; ++slot) free.push_back(slot);
        while (done < kRequests) {
            while (!free.empty() && offered < kRequests) {
                ring.offer(static_cast<std::uint16_t>(2 * free.back()));
                in_flight[free.back()] = true;
                free.pop_back();
                ++offered;
            }
            ring.publish();
            guest->kick(1);
            const auto seen = static_cast<std::uint16_t>(kBase + done);
            std::uint16_t used = ring.used_index();
            while (used == seen) {
                ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience)) << done << " of " << offered;
                read_event(guest->call_fd(1));
                used = ring.used_index();
            }
            ASSERT_LE(static_cast<std::uint16_t>(used - seen), size / 2);
            for (std::uint16_t index = seen; index != used; ++index) {
                const auto element = ring.used(index);
                ASSERT_LT(element.id, size);
                ASSERT_TRUE(in_flight[element.id / 2]);
                ASSERT_EQ(element.bytes, kGetattrReplyBytes);
                in_flight[element.id / 2] = false;
                free.push_back(static_cast<std::uint16_t>(element.id / 2));
                ++done;
            }
        }
        EXPECT_EQ(ring.used_index(), static_cast<std::uint16_t>(kBase + kRequests));
        EXPECT_EQ(guest->front_end().get_vring_base(1), static_cast<std::uint16_t>(kBase + kRequests));
    }
}

// Sizes that are no power of two are the packed ring's own.
TEST_F(AvailIndex, a_packed_ring_of_any_size_wraps_without_loss) {
    for (const std::uint32_t size : {8U, 7U, 1000U, 1024U}) {
        SCOPED_TRACE(size);
        const auto guest = connect(size, true, true);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(1));
        const std::uint32_t requests = 20'000;
        std::uint32_t free = std::min(size / 2, RawGuest::kPiecesPerQueue);
        std::vector<std::uint32_t> pieces;
        for (std::uint32_t done = 0; done < requests;) {
            for (; free > 0; --free) pieces.push_back(guest->add(1, getattr_request()).value());
            guest->kick_if_wanted(1);
            ASSERT_TRUE(guest->wait_for_all(1)) << done;
            for (const std::uint32_t piece : pieces) {
                ASSERT_EQ(guest->take(1, piece).size(), kGetattrReplyBytes);
                ++done;
                ++free;
            }
            pieces.clear();
        }
    }
}

} // namespace
} // namespace viaduct::test
