// SPDX-License-Identifier: Apache-2.0
//
// What is negotiated, in which order, and what it does to rings that run.
#include "support/raw_guest.h"
#include "support/served_share.h"

#include <gtest/gtest.h>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using vhost::kFeatureProtocolFeatures;

constexpr std::uint64_t kFeatureLogAll = 1ULL << 26;

class Features : public testing::TestWithParam<bool> {
protected:
    std::unique_ptr<RawGuest> connect(std::uint64_t protocol_wanted = ~0ULL, bool negotiate = true) {
        return RawGuest::connect({.socket = share.socket(),
                                  .queues = 5,
                                  .packed = GetParam(),
                                  .event_idx = true,
                                  .negotiate = negotiate,
                                  .protocol_wanted = protocol_wanted});
    }
    ServedShare share;
};

INSTANTIATE_TEST_SUITE_P(Formats, Features, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(Features, setting_them_again_leaves_the_rings_that_run_enabled) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    const std::uint64_t features = guest->wanted_features() | kFeatureProtocolFeatures;
    const auto offered = front_end.get_features();
    ASSERT_TRUE(offered);
    for (int round = 0; round < 10; ++round) {
        // A bit more or less that has nothing to do with the format of a ring.
        ASSERT_TRUE(front_end.set_features(features | virtio::kFeatureRingReset));
        EXPECT_TRUE(guest->serves(1));
        ASSERT_TRUE(front_end.set_features(features));
        EXPECT_TRUE(guest->serves(1));
        // Dirty logging is turned on in mid-flight; a device that does not offer it says so and goes on.
        const Status logging = front_end.set_features(features | kFeatureLogAll);
        EXPECT_EQ(static_cast<bool>(logging), (*offered & kFeatureLogAll) != 0);
        EXPECT_TRUE(guest->serves(1));
    }
}

TEST_P(Features, setting_them_again_does_not_enable_a_ring_that_is_disabled) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    ASSERT_TRUE(front_end.set_vring_enable(1, false));
    ASSERT_TRUE(front_end.set_features(guest->wanted_features() | kFeatureProtocolFeatures));
    ASSERT_TRUE(front_end.set_vring_kick(1, guest->kick_fd(1)));
    read_event(guest->call_fd(1));
    ASSERT_TRUE(guest->add(1, getattr_request()));
    guest->kick(1);
    EXPECT_FALSE(readable_within(guest->call_fd(1), 150ms));
    EXPECT_EQ(guest->came_back(1), 1U);
    ASSERT_TRUE(front_end.set_vring_enable(1, true));
    EXPECT_TRUE(guest->wait_for_all(1));
}

TEST_P(Features, a_kick_descriptor_that_is_replaced_leaves_the_ring_enabled) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (int round = 0; round < 10; ++round) {
        ASSERT_TRUE(guest->front_end().set_vring_kick(1, guest->kick_fd(1)));
        EXPECT_TRUE(guest->serves(1));
    }
}

TEST_P(Features, the_format_of_a_ring_that_runs_cannot_be_changed_and_the_ring_goes_on) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    ASSERT_TRUE(guest->start_session(1));
    const std::uint64_t features = guest->wanted_features() | kFeatureProtocolFeatures;
    for (const std::uint64_t bit :
         {virtio::kFeatureRingPacked, virtio::kFeatureEventIdx, virtio::kFeatureIndirectDesc}) {
        EXPECT_EQ(front_end.set_features(features ^ bit).error(), Errno{EREMOTEIO});
        EXPECT_TRUE(guest->serves(1));
    }
}

TEST_P(Features, every_bit_that_is_not_offered_is_refused) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    const auto offered = front_end.get_features();
    ASSERT_TRUE(offered);
    for (std::uint32_t bit = 0; bit < 64; ++bit) {
        if (((*offered >> bit) & 1U) != 0) continue;
        EXPECT_EQ(front_end.set_features(kFeatureProtocolFeatures | (1ULL << bit)).error(), Errno{EREMOTEIO})
            << "bit " << bit;
    }
    EXPECT_TRUE(guest->start_session(1));
}

TEST_P(Features, without_protocol_features_rings_are_enabled_from_the_start) {
    const auto guest = connect(0);
    ASSERT_TRUE(guest);
    ASSERT_EQ(guest->front_end().protocol_features(), 0U);
    ASSERT_TRUE(guest->start_session(1)); // says no enable
    EXPECT_TRUE(guest->serves(1));
    // Again after a stop, and after features that were set once more.
    const auto base = guest->front_end().get_vring_base(1);
    ASSERT_TRUE(base);
    ASSERT_TRUE(guest->start(1, *base));
    EXPECT_TRUE(guest->serves(1));
    ASSERT_TRUE(guest->front_end().set_features(guest->wanted_features()));
    EXPECT_TRUE(guest->serves(1));
}

TEST_P(Features, protocol_features_may_come_before_any_feature) {
    const auto guest = connect(~0ULL, false);
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    const auto protocol = front_end.get_protocol_features();
    ASSERT_TRUE(protocol);
    ASSERT_TRUE(front_end.set_protocol_features(*protocol & (vhost::kProtocolMq | vhost::kProtocolReplyAck)));
    EXPECT_EQ(front_end.get_queue_num(), 5U);
    ASSERT_TRUE(front_end.set_owner());
    ASSERT_TRUE(front_end.get_features());
    ASSERT_TRUE(front_end.set_features(guest->wanted_features() | kFeatureProtocolFeatures));
    ASSERT_TRUE(guest->share());
    EXPECT_TRUE(guest->start_session(1));
}

TEST_P(Features, every_queue_can_be_enabled_without_the_multi_queue_bit) {
    const auto guest = connect(vhost::kProtocolReplyAck);
    ASSERT_TRUE(guest);
    ASSERT_EQ(guest->front_end().protocol_features(), vhost::kProtocolReplyAck);
    for (const std::uint32_t queue : {0U, 1U, 2U, 3U, 4U}) EXPECT_TRUE(guest->start_session(queue)) << queue;
    for (const std::uint32_t queue : {0U, 1U, 2U, 3U, 4U}) EXPECT_TRUE(guest->serves(queue));
}

TEST_P(Features, a_front_end_without_acknowledgements_is_served) {
    const auto guest = connect(vhost::kProtocolMq);
    ASSERT_TRUE(guest);
    EXPECT_TRUE(guest->start_session(1));
    EXPECT_TRUE(guest->serves(1));
}

} // namespace
} // namespace viaduct::test
