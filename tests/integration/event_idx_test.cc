// SPDX-License-Identifier: Apache-2.0
//
// Notifications with EVENT_IDX: none that is needed is missing, and those that are not needed are not sent.
#include "support/raw_guest.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <random>

namespace viaduct::test {
namespace {

struct Way {
    const char* name;
    bool packed = false;
    bool say_base = true;
    std::uint32_t restart_every = 0; // batches; 0: never
    std::uint32_t requests = 200'000;
};

class EventIdx : public testing::TestWithParam<Way> {
protected:
    static constexpr std::uint32_t kSize = 64;
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(
    Ways, EventIdx,
    testing::Values(Way{.name = "split"}, Way{.name = "packed", .packed = true},
                    Way{.name = "split_without_base", .say_base = false, .requests = 70'000},
                    Way{.name = "packed_without_base", .packed = true, .say_base = false, .requests = 70'000},
                    Way{.name = "split_restarted", .restart_every = 20, .requests = 70'000},
                    Way{.name = "packed_restarted", .packed = true, .restart_every = 20, .requests = 70'000}),
    [](const auto& info) { return info.param.name; });

// Indexes of a split ring pass 65535 on the way.
TEST_P(EventIdx, who_sleeps_until_the_last_of_a_batch_is_woken_and_seldom_before) {
    const Way way = GetParam();
    const auto guest =
        RawGuest::connect({.socket = share.socket(), .size = kSize, .packed = way.packed, .event_idx = true});
    ASSERT_TRUE(guest);
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};

    const auto base = way.say_base ? std::optional{guest->first_base()} : std::nullopt;
    ASSERT_TRUE(guest->start(1, base));
    ASSERT_TRUE(guest->say(1, init_request()));

    // One request and one reply for all: what is looked at here is their number.
    const auto request = getattr_request();
    const std::uint64_t offset = guest->piece_offset(1, 0);
    std::memcpy(guest->at(offset), request.data(), request.size());
    const std::array readable{virtio::GuestRange{.address = virtio::GuestAddress{RawGuest::address(offset)},
                                                 .bytes = static_cast<std::uint32_t>(request.size())}};
    const std::array writable{
        virtio::GuestRange{.address = virtio::GuestAddress{RawGuest::address(offset + 2048)}, .bytes = 1024}};

    virtio::DriverQueue& ring = guest->ring(1);
    std::uint64_t kicks = 0;
    std::uint64_t calls = 0;
    std::uint64_t batches = 0;
    std::uint64_t restarts = 0;
    read_event(guest->call_fd(1));
    for (std::uint32_t done = 0; done < way.requests;) {
        const std::uint32_t batch = 1 + random() % kSize;
        for (std::uint32_t index = 0; index < batch; ++index)
            ASSERT_TRUE(ring.add(readable, writable, &ring));
        if (ring.should_kick()) {
            guest->kick(1);
            ++kicks;
        }
        ++batches;
        const bool restarted = way.restart_every != 0 && batches % way.restart_every == 0;
        if (restarted) {
            const auto stopped = guest->front_end().get_vring_base(1);
            ASSERT_TRUE(stopped);
            ASSERT_TRUE(guest->start(1, *stopped));
            ++restarts;
        }
        for (std::uint32_t left = batch; left > 0;) {
            const auto used = ring.poll();
            ASSERT_TRUE(used);
            if (*used) {
                ASSERT_EQ((*used)->written_bytes, kGetattrReplyBytes);
                --left;
                continue;
            }
            if (ring.enable_interrupts_after(static_cast<std::uint16_t>(left))) continue;
            ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience))
                << "after " << done + batch - left << " requests, " << left << " of " << batch
                << " not seen; in the ring: " << ring.enable_interrupts();
            calls += read_event(guest->call_fd(1));
        }
        done += batch;
    }
    calls += read_event(guest->call_fd(1));
    RecordProperty("kicks", std::to_string(kicks));
    RecordProperty("calls", std::to_string(calls));
    RecordProperty("batches", std::to_string(batches));
    // 32 requests in a batch on average.  A call for a batch, one more where a sleep began in the middle, and
    // one at each start.
    EXPECT_LE(calls, 2 * batches + 2 * restarts);
    EXPECT_LE(kicks, batches);
}

// A queue that is busy is not kicked, whatever the number of requests.
TEST_P(EventIdx, calls_for_completions_before_the_one_asked_for_are_left_out) {
    const auto guest = RawGuest::connect(
        {.socket = share.socket(), .size = kSize, .packed = GetParam().packed, .event_idx = true});
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    // The call for INIT may still be on its way; the worker has made it when it has taken this.
    ASSERT_TRUE(guest->front_end().set_vring_enable(1, true));
    for (int round = 0; round < 20; ++round) {
        std::vector<std::uint32_t> pieces;
        for (int count = 0; count < 20; ++count) {
            const auto piece = guest->add(1, getattr_request());
            ASSERT_TRUE(piece);
            pieces.push_back(*piece);
        }
        guest->ring(1).enable_interrupts_after(20);
        read_event(guest->call_fd(1));
        guest->kick(1);
        ASSERT_TRUE(readable_within(guest->call_fd(1), kPatience));
        EXPECT_EQ(read_event(guest->call_fd(1)), 1U);
        EXPECT_EQ(guest->came_back(1), guest->added(1));
        for (const std::uint32_t piece : pieces) (void)guest->take(1, piece);
    }
}

TEST_P(EventIdx, the_first_completion_after_a_start_calls_whatever_the_event_index_says) {
    const auto guest = RawGuest::connect(
        {.socket = share.socket(), .size = kSize, .packed = GetParam().packed, .event_idx = true});
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int round = 0; round < 5; ++round) {
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_TRUE(base);
        for (int count = 0; count < 10; ++count) ASSERT_TRUE(guest->add(1, getattr_request()));
        guest->ring(1).enable_interrupts_after(10);
        read_event(guest->call_fd(1));
        ASSERT_TRUE(guest->start(1, *base));
        EXPECT_TRUE(readable_within(guest->call_fd(1), kPatience));
        EXPECT_TRUE(guest->wait_for_all(1));
    }
}

} // namespace
} // namespace viaduct::test
