// SPDX-License-Identifier: Apache-2.0
//
// When a ring is served: it is started and enabled, whatever the order in which that was said, and whether or
// not a kick comes.
#include "support/raw_guest.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;

// How long nothing must happen.
constexpr auto kQuiet = 150ms;

class VringEnable : public testing::TestWithParam<bool> {
protected:
    std::unique_ptr<RawGuest> connect(bool negotiate = true) {
        return RawGuest::connect(
            {.socket = share.socket(), .queues = 5, .packed = GetParam(), .negotiate = negotiate});
    }
    // Nothing has come back on the queue, and nothing does for a while.
    static bool quiet(RawGuest& guest, std::uint32_t queue) {
        const std::uint64_t before = guest.came_back(queue);
        return !readable_within(guest.call_fd(queue), kQuiet) && guest.came_back(queue) == before;
    }
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(Formats, VringEnable, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(VringEnable, a_request_that_was_kicked_before_the_enable_is_served_after_it) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->add(1, init_request()));
    ASSERT_TRUE(front_end.set_vring_call(1, guest->call_fd(1)));
    ASSERT_TRUE(guest->describe(1, guest->first_base()));
    ASSERT_TRUE(front_end.set_vring_kick(1, guest->kick_fd(1)));
    guest->kick(1);
    EXPECT_TRUE(quiet(*guest, 1));
    ASSERT_TRUE(front_end.set_vring_enable(1, true));
    EXPECT_TRUE(guest->wait_for_all(1));
}

TEST_P(VringEnable, nothing_is_processed_while_a_ring_is_disabled_and_everything_afterwards) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int round = 0; round < 3; ++round) {
        ASSERT_TRUE(guest->front_end().set_vring_enable(1, false));
        read_event(guest->call_fd(1));
        for (int count = 0; count < 5; ++count) {
            ASSERT_TRUE(guest->add(1, getattr_request()));
            guest->kick(1);
        }
        EXPECT_TRUE(quiet(*guest, 1)) << "round " << round;
        ASSERT_TRUE(guest->front_end().set_vring_enable(1, true));
        EXPECT_TRUE(guest->wait_for_all(1)) << "round " << round;
    }
}

TEST_P(VringEnable, disabling_one_ring_leaves_the_others_served) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    for (const std::uint32_t queue : {0U, 1U, 2U, 3U, 4U}) ASSERT_TRUE(guest->start_session(queue));
    ASSERT_TRUE(guest->front_end().set_vring_enable(2, false));
    read_event(guest->call_fd(2));
    ASSERT_TRUE(guest->add(2, getattr_request()));
    guest->kick(2);
    for (const std::uint32_t queue : {0U, 1U, 3U, 4U}) EXPECT_TRUE(guest->serves(queue));
    EXPECT_TRUE(quiet(*guest, 2));
}

TEST_P(VringEnable, requests_that_wait_are_served_after_a_restart_without_any_kick) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int round = 0; round < 5; ++round) {
        const auto base = guest->front_end().get_vring_base(1);
        ASSERT_TRUE(base);
        for (int count = 0; count < 3; ++count) ASSERT_TRUE(guest->add(1, getattr_request()));
        ASSERT_TRUE(guest->start(1, *base));
        EXPECT_TRUE(guest->wait_for_all(1)) << "round " << round;
    }
}

TEST_P(VringEnable, requests_that_wait_are_served_on_a_new_connection_without_any_kick) {
    for (int round = 0; round < 3; ++round) {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->add(1, init_request()));
        ASSERT_TRUE(guest->start(1));
        EXPECT_TRUE(guest->wait_for_all(1)) << "round " << round;
    }
}

TEST_P(VringEnable, a_ring_whose_kick_descriptor_is_none_is_polled) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->front_end().set_vring_call(1, guest->call_fd(1)));
    ASSERT_TRUE(guest->describe(1, guest->first_base()));
    ASSERT_TRUE(guest->front_end().set_vring_kick(1, -1));
    ASSERT_TRUE(guest->front_end().set_vring_enable(1, true));
    ASSERT_TRUE(guest->add(1, init_request()));
    EXPECT_TRUE(guest->wait_for_all(1));
    for (int round = 0; round < 20; ++round) {
        ASSERT_TRUE(guest->add(1, getattr_request()));
        EXPECT_TRUE(guest->wait_for_all(1)) << "round " << round;
    }
}

TEST_P(VringEnable, a_ring_that_is_enabled_and_never_given_a_kick_descriptor_is_served) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->add(1, init_request()));
    ASSERT_TRUE(guest->front_end().set_vring_call(1, guest->call_fd(1)));
    ASSERT_TRUE(guest->describe(1, guest->first_base()));
    ASSERT_TRUE(guest->front_end().set_vring_enable(1, true));
    EXPECT_TRUE(guest->wait_for_all(1));
}

TEST_P(VringEnable, a_ring_that_is_enabled_before_its_memory_is_known_is_served_with_or_without_a_kick) {
    for (const bool kicked : {false, true}) {
        const auto guest = connect(false);
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->negotiate());
        ASSERT_TRUE(guest->add(1, init_request()));
        ASSERT_TRUE(guest->front_end().set_vring_call(1, guest->call_fd(1)));
        ASSERT_TRUE(guest->describe(1, guest->first_base()));
        if (kicked) ASSERT_TRUE(guest->front_end().set_vring_kick(1, guest->kick_fd(1)));
        ASSERT_TRUE(guest->front_end().set_vring_enable(1, true));
        ASSERT_TRUE(guest->share());
        EXPECT_TRUE(guest->wait_for_all(1)) << kicked;
    }
}

TEST_P(VringEnable, an_enable_for_a_ring_that_is_not_set_up_serves_nothing) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    ASSERT_TRUE(guest->front_end().get_vring_base(1));
    ASSERT_TRUE(guest->add(1, getattr_request()));
    read_event(guest->call_fd(1));
    // For every queue, as a front end does that is about to start again.
    for (const std::uint32_t queue : {0U, 1U, 2U, 3U, 4U})
        ASSERT_TRUE(guest->front_end().set_vring_enable(queue, true));
    guest->kick(1);
    EXPECT_TRUE(quiet(*guest, 1));
}

TEST_P(VringEnable, memory_call_kick_and_enable_may_come_in_any_order) {
    std::array<int, 4> order{0, 1, 2, 3};
    do {
        const auto guest = connect(false);
        ASSERT_TRUE(guest);
        auto& front_end = guest->front_end();
        ASSERT_TRUE(guest->negotiate());
        ASSERT_TRUE(guest->describe(1, guest->first_base()));
        ASSERT_TRUE(guest->add(1, init_request()));
        guest->kick(1);
        for (const int step : order) {
            const Status done = step == 0   ? guest->share()
                                : step == 1 ? front_end.set_vring_call(1, guest->call_fd(1))
                                : step == 2 ? front_end.set_vring_kick(1, guest->kick_fd(1))
                                            : front_end.set_vring_enable(1, true);
            ASSERT_TRUE(done) << done.error().name();
        }
        // The call descriptor may have come when the answer was there already.
        EXPECT_TRUE(guest->wait_for_all(1)) << order[0] << order[1] << order[2] << order[3];
        EXPECT_TRUE(guest->serves(1)) << order[0] << order[1] << order[2] << order[3];
    } while (std::ranges::next_permutation(order).found);
}

} // namespace
} // namespace viaduct::test
