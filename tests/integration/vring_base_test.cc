// SPDX-License-Identifier: Apache-2.0
//
// GET_VRING_BASE: stops a ring, says where it stopped, and nothing of the ring's memory is touched from then
// on.
#include "support/raw_guest.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <random>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;

class VringBase : public testing::TestWithParam<bool> {
protected:
    static constexpr std::uint32_t kSize = 64;
    // Each request takes one entry: what is reported after `count` of them.
    static std::uint32_t base_after(std::uint64_t count) {
        if (!GetParam()) return static_cast<std::uint16_t>(count);
        const std::uint32_t half =
            static_cast<std::uint32_t>(count % kSize) | (count / kSize % 2 == 0 ? 0x8000U : 0U);
        return half << 16 | half;
    }
    static std::unique_ptr<RawGuest> connect(const ServedShare& share) {
        return RawGuest::connect(
            {.socket = share.socket(), .queues = 3, .size = kSize, .packed = GetParam()});
    }
    static void serve(RawGuest& guest, std::uint32_t count) {
        for (std::uint32_t index = 0; index < count; ++index) {
            const auto header = guest.say(1, statfs_request(index));
            ASSERT_TRUE(header);
            ASSERT_EQ(header->error, 0);
        }
    }
};

INSTANTIATE_TEST_SUITE_P(Formats, VringBase, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(VringBase, the_answer_waits_for_a_slow_request_and_counts_it) {
    ServedShare share{{"--faults", "getattr:delay=1500"}};
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    serve(*guest, 4);
    const auto slow = guest->add(1, getattr_request());
    ASSERT_TRUE(slow);
    // Popped in order: when the second is answered, the first has been taken.
    ASSERT_TRUE(guest->add(1, statfs_request()));
    const auto begun = std::chrono::steady_clock::now();
    guest->kick(1);
    ASSERT_TRUE(guest->wait_for(1, 6));
    if (guest->has_come_back(1, *slow)) {
        ASSERT_GE(std::chrono::steady_clock::now() - begun, 1500ms);
        GTEST_SKIP() << "this machine took as long as the slow request";
    }

    const auto base = guest->front_end().get_vring_base(1);
    ASSERT_TRUE(base);
    EXPECT_GE(std::chrono::steady_clock::now() - begun, 1500ms);
    EXPECT_EQ(*base, base_after(7));
    EXPECT_EQ(guest->came_back(1), 7U);
    EXPECT_EQ(guest->take(1, *slow).size(), kGetattrReplyBytes);
}

TEST_P(VringBase, a_request_is_either_reported_as_taken_and_done_or_left_on_the_ring) {
    ServedShare share{{"--faults", "getattr:delay=2"}};
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    for (int round = 0; round < 100; ++round) {
        const std::uint32_t count = random() % 20;
        for (std::uint32_t index = 0; index < count; ++index)
            ASSERT_TRUE(guest->add(1, index % 2 == 0 ? getattr_request() : statfs_request()));
        guest->kick(1);
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_TRUE(base);
        // Where it stopped, everything before is done and nothing behind.
        ASSERT_EQ(*base, base_after(guest->came_back(1)));
        ASSERT_TRUE(guest->start(1, *base));
        ASSERT_TRUE(guest->wait_for_all(1));
        while (guest->came_back(1) < guest->added(1)) {
        }
        if (guest->added(1) > 400) {
            ASSERT_TRUE(guest->front_end().get_vring_base(1));
            ASSERT_TRUE(guest->start_session(1));
        }
    }
}

TEST_P(VringBase, asked_again_it_says_the_same) {
    ServedShare share;
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    serve(*guest, 4);
    for (int round = 0; round < 5; ++round) EXPECT_EQ(guest->front_end().get_vring_base(1), base_after(5));
    // A ring that never ran is at its beginning.
    EXPECT_EQ(guest->front_end().get_vring_base(2), GetParam() ? 0x8000'8000U : 0U);
}

TEST_P(VringBase, a_ring_goes_on_where_it_stopped) {
    ServedShare share;
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    std::uint64_t count = 1;
    for (int round = 0; round < 60; ++round) { // beyond one lap of the ring
        serve(*guest, 3);
        count += 3;
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_EQ(base, base_after(count));
        if (!GetParam()) ASSERT_EQ(guest->used_index(1), count);
        ASSERT_TRUE(guest->start(1, *base));
    }
}

TEST_P(VringBase, after_a_reset_of_the_driver_the_ring_begins_anew) {
    ServedShare share;
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    for (const std::uint32_t requests : {5U, 2U, 100U, 1U}) {
        ASSERT_TRUE(guest->start_session(1)); // in zeroed memory
        serve(*guest, requests - 1);
        if (!GetParam()) EXPECT_EQ(guest->used_index(1), requests);
        EXPECT_EQ(guest->front_end().get_vring_base(1), base_after(requests));
    }
    // The reset may also come without a stop before it, as RESET_DEVICE.
    ASSERT_TRUE(guest->start_session(1));
    ASSERT_TRUE(guest->front_end().reset_device());
    ASSERT_TRUE(guest->front_end().set_features(guest->wanted_features() | vhost::kFeatureProtocolFeatures));
    EXPECT_TRUE(guest->start_session(1));
    if (!GetParam()) EXPECT_EQ(guest->used_index(1), 1U);
}

TEST_P(VringBase, memory_is_not_touched_after_the_answer) {
    ServedShare share;
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (std::uint32_t index = 0; index < kSize; ++index) ASSERT_TRUE(guest->add(1, getattr_request()));
    guest->kick(1);
    ASSERT_TRUE(guest->front_end().get_vring_base(1));
    const auto before = guest->snapshot();
    guest->kick(1);
    EXPECT_FALSE(readable_within(guest->error_fd(1), 150ms));
    EXPECT_EQ(before, guest->snapshot());
}

TEST_P(VringBase, a_request_that_does_not_end_in_time_cannot_reach_memory_any_more) {
    ServedShare share{{"--faults", "getattr:delay=3000:deaf", "--drain-timeout", "200"}};
    {
        const auto guest = connect(share);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(1));
        ASSERT_TRUE(guest->add(1, getattr_request()));
        ASSERT_TRUE(guest->add(1, statfs_request()));
        guest->kick(1);
        ASSERT_TRUE(guest->wait_for(1, 2));
        EXPECT_EQ(guest->front_end().get_vring_base(1).has_value(), true);
        const auto before = guest->snapshot();
        // The device is given up, and its connection with it.
        EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE});
        EXPECT_TRUE(share.daemon().wait_for_log("the last requests of a dead device have ended", kPatience));
        EXPECT_EQ(before, guest->snapshot());
    }
    const auto next = connect(share);
    ASSERT_TRUE(next);
    ASSERT_TRUE(next->start_session(1));
    serve(*next, 3);
}

TEST_P(VringBase, stopping_one_ring_leaves_the_others_served) {
    ServedShare share;
    const auto guest = connect(share);
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    ASSERT_TRUE(guest->start_session(2));
    for (int round = 0; round < 20; ++round) {
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_TRUE(base);
        EXPECT_TRUE(guest->serves(2));
        ASSERT_TRUE(guest->start(1, *base));
        EXPECT_TRUE(guest->serves(1));
    }
}

} // namespace
} // namespace viaduct::test
