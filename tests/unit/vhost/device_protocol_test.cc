// SPDX-License-Identifier: Apache-2.0
//
// The protocol without a socket: messages in, answers and calls on the device out.
#include "vhost/device_protocol.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "unit/vhost/recording_device.h"

#include <fcntl.h>
#include <sys/socket.h>

namespace viaduct::vhost {
namespace {

using test::event_fd;
using testing::ElementsAre;
using testing::IsEmpty;

// A front end in front of a DeviceProtocol.
class Conversation {
public:
    test::RecordingDevice device;
    DeviceProtocol protocol{device};
    std::vector<Fd> files;

    Result<std::vector<std::byte>> send(Request request, std::vector<std::byte> payload = {},
                                        std::vector<Fd> fds = {}, std::uint32_t flags = 0) {
        Message message;
        message.header = {.request = static_cast<std::uint32_t>(request),
                          .flags = kFlagVersion | flags,
                          .size = static_cast<std::uint32_t>(payload.size())};
        message.payload = std::move(payload);
        message.fds = std::move(fds);
        return test::run_at_once(protocol.handle(std::move(message)));
    }
    // Asks for an acknowledgement; true: it says success.
    bool acknowledged(Request request, std::vector<std::byte> payload = {}, std::vector<Fd> fds = {}) {
        const auto reply = send(request, std::move(payload), std::move(fds), kFlagNeedReply);
        EXPECT_TRUE(reply);
        EXPECT_EQ(reply->size(), sizeof(Header) + 8);
        const auto header = decode<Header>(std::span{*reply}.first(sizeof(Header)));
        EXPECT_EQ(header->request, static_cast<std::uint32_t>(request));
        EXPECT_EQ(header->flags, kFlagVersion | kFlagReply);
        return *decode<std::uint64_t>(std::span{*reply}.subspan(sizeof(Header))) == 0;
    }
    bool number(Request request, std::uint64_t value, std::vector<Fd> fds = {}) {
        return acknowledged(request, encode(value), std::move(fds));
    }
    bool state(Request request, std::uint32_t index, std::uint32_t num) {
        return acknowledged(request, encode(VringState{.index = index, .num = num}));
    }
    bool event(Request request, std::uint64_t payload) {
        std::vector<Fd> fds;
        if ((payload & kVringNoFd) == 0) fds.push_back(event_fd());
        return number(request, payload, std::move(fds));
    }
    bool address(std::uint32_t index, std::uint64_t region = 0) {
        const auto ring = test::ring_of(index, region);
        return acknowledged(Request::set_vring_addr, encode(VringAddress{.index = index,
                                                                         .flags = 0,
                                                                         .descriptor = ring.descriptor,
                                                                         .used = ring.device,
                                                                         .available = ring.driver,
                                                                         .log = 0}));
    }
    std::uint64_t ask(Request request) {
        const auto reply = send(request);
        EXPECT_TRUE(reply);
        return *decode<std::uint64_t>(std::span{*reply}.subspan(sizeof(Header)));
    }
    Result<std::uint32_t> base(std::uint32_t index) {
        TRY(const auto reply, send(Request::get_vring_base, encode(VringState{.index = index, .num = 0})));
        const auto answer = decode<VringState>(std::span{reply}.subspan(sizeof(Header)));
        EXPECT_TRUE(answer);
        EXPECT_EQ(answer->index, index);
        return answer->num;
    }
    bool add_region(std::uint64_t number) {
        files.push_back(test::memory_file(test::kRegionBytes));
        std::vector<Fd> fds;
        fds.emplace_back(::fcntl(files.back().get(), F_DUPFD_CLOEXEC, 0));
        return acknowledged(Request::add_mem_reg, single(number), std::move(fds));
    }
    static std::vector<std::byte> single(std::uint64_t number) {
        const auto region = test::region(number);
        return encode(SingleRegion{.padding = 0,
                                   .region = {.guest_address = region.guest_address,
                                              .bytes = region.bytes,
                                              .user_address = region.user_address,
                                              .mmap_offset = 0}});
    }
    // Up to, and without, the kick.
    void set_up(std::uint32_t index, std::uint64_t features = kUsual) {
        EXPECT_TRUE(number(Request::set_features, features));
        if (device.memory == nullptr) EXPECT_TRUE(add_region(0));
        EXPECT_TRUE(state(Request::set_vring_num, index, 64));
        EXPECT_TRUE(state(Request::set_vring_base, index, 3));
        EXPECT_TRUE(address(index));
        device.take();
    }
    void run(std::uint32_t index, std::uint64_t features = kUsual) {
        set_up(index, features);
        EXPECT_TRUE(event(Request::set_vring_kick, index));
        EXPECT_TRUE(state(Request::set_vring_enable, index, 1));
        device.take();
    }

    static constexpr std::uint64_t kUsual = kFeatureProtocolFeatures | virtio::kFeatureVersion1 |
                                            virtio::kFeatureIndirectDesc | virtio::kFeatureEventIdx;
};

TEST(DeviceProtocol, offers_features_and_protocol_features_before_any_were_set) {
    Conversation front;
    EXPECT_EQ(front.ask(Request::get_features), front.device.offered | kFeatureProtocolFeatures);
    const std::uint64_t offered = front.ask(Request::get_protocol_features);
    EXPECT_EQ(offered, kProtocolMq | kProtocolReplyAck | kProtocolBackendReq | kProtocolBackendSendFd |
                           kProtocolResetDevice | kProtocolConfigureMemSlots);
    EXPECT_TRUE(front.number(Request::set_protocol_features, offered));
    EXPECT_EQ(front.ask(Request::get_queue_num), 3U);
    EXPECT_GE(front.ask(Request::get_max_mem_slots), 509U);
}

TEST(DeviceProtocol, features_that_were_not_offered_are_refused_and_change_nothing) {
    Conversation front;
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual));
    front.device.take();
    EXPECT_FALSE(front.number(Request::set_features, Conversation::kUsual | 1ULL << 26));
    EXPECT_FALSE(front.number(Request::set_protocol_features, 1ULL << 40));
    EXPECT_THAT(front.device.calls, IsEmpty());
    EXPECT_EQ(front.protocol.features(), Conversation::kUsual);
}

TEST(DeviceProtocol, vhost_users_own_feature_bit_is_not_the_devices) {
    Conversation front;
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual));
    EXPECT_EQ(front.device.negotiated, Conversation::kUsual & ~kFeatureProtocolFeatures);
}

TEST(DeviceProtocol, queue_starts_on_its_kick_and_is_enabled_apart_from_it) {
    Conversation front;
    front.set_up(1);
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_TRUE(front.state(Request::set_vring_enable, 1, 1));
    EXPECT_TRUE(front.state(Request::set_vring_enable, 1, 0));
    EXPECT_THAT(front.device.calls, ElementsAre("start 1 base 3", "enable 1", "disable 1"));
}

TEST(DeviceProtocol, enable_before_the_kick_starts_once_everything_is_there) {
    Conversation front;
    front.set_up(1);
    EXPECT_TRUE(front.state(Request::set_vring_enable, 1, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("start 1 base 3 enabled"));
    front.device.base_at_stop = 3;
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("stop 1", "start 1 base 3 enabled"));
}

TEST(DeviceProtocol, enable_for_every_queue_does_not_wake_the_ring_of_a_guest_that_is_gone) {
    Conversation front;
    front.run(1);
    EXPECT_TRUE(front.state(Request::set_vring_enable, 1, 0));
    EXPECT_EQ(*front.base(1), 7U);
    front.device.take();
    EXPECT_TRUE(front.state(Request::set_vring_enable, 1, 1)); // firmware that drives queue 0 only
    EXPECT_TRUE(front.state(Request::set_vring_enable, 2, 1)); // never configured
    EXPECT_THAT(front.device.calls, IsEmpty());
}

TEST(DeviceProtocol, kick_before_the_ring_is_known_counts_when_it_is) {
    Conversation front;
    EXPECT_TRUE(front.event(Request::set_vring_kick, 0));
    EXPECT_THAT(front.device.calls, IsEmpty());
    front.set_up(0);
    EXPECT_TRUE(front.device.running.at(0).kick);
    EXPECT_TRUE(front.state(Request::set_vring_enable, 0, 1));
    EXPECT_THAT(front.device.calls, ElementsAre("enable 0"));
}

// Without the feature there is no message that enables it.
TEST(DeviceProtocol, kick_before_number_addresses_and_base_in_any_order_starts_the_queue) {
    std::array<int, 3> order{0, 1, 2};
    do {
        Conversation front;
        EXPECT_TRUE(front.number(Request::set_features, virtio::kFeatureVersion1));
        EXPECT_TRUE(front.add_region(0));
        EXPECT_TRUE(front.event(Request::set_vring_kick, 0));
        front.device.take();
        for (const int step : order) {
            EXPECT_THAT(front.device.calls, IsEmpty());
            if (step == 0) EXPECT_TRUE(front.state(Request::set_vring_num, 0, 64));
            if (step == 1) EXPECT_TRUE(front.address(0));
            if (step == 2) EXPECT_TRUE(front.state(Request::set_vring_base, 0, 3));
        }
        EXPECT_THAT(front.device.calls, ElementsAre("start 0 base 3 enabled"));
        EXPECT_TRUE(front.device.running.at(0).kick);
    } while (std::ranges::next_permutation(order).found);
}

TEST(DeviceProtocol, kick_before_the_memory_counts_when_it_comes) {
    Conversation front;
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual));
    EXPECT_TRUE(front.state(Request::set_vring_num, 0, 64));
    EXPECT_TRUE(front.address(0));
    EXPECT_TRUE(front.event(Request::set_vring_kick, 0));
    EXPECT_TRUE(front.add_region(0));
    EXPECT_THAT(front.device.calls, ElementsAre("features", "memory 1", "start 0 base 0"));
}

TEST(DeviceProtocol, without_protocol_features_a_queue_is_enabled_from_the_start) {
    Conversation front;
    front.set_up(0, virtio::kFeatureVersion1);
    EXPECT_TRUE(front.event(Request::set_vring_kick, 0));
    EXPECT_THAT(front.device.calls, ElementsAre("start 0 base 3 enabled"));
}

TEST(DeviceProtocol, features_again_leave_running_queues_as_they_are) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual));
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual | virtio::kFeatureRingReset));
    EXPECT_THAT(front.device.take(), ElementsAre("features", "features"));
    EXPECT_FALSE(front.number(Request::set_features, Conversation::kUsual & ~virtio::kFeatureEventIdx));
    EXPECT_THAT(front.device.take(), IsEmpty());
}

TEST(DeviceProtocol, new_kick_restarts_a_running_queue_where_it_was) {
    Conversation front;
    front.run(1);
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("stop 1", "start 1 base 7 enabled"));
}

TEST(DeviceProtocol, get_vring_base_stops_and_gives_the_same_number_again) {
    Conversation front;
    front.run(1);
    EXPECT_EQ(*front.base(1), 7U);
    EXPECT_EQ(*front.base(1), 7U);
    EXPECT_THAT(front.device.take(), ElementsAre("stop 1"));
    EXPECT_EQ(*front.base(0), 0U); // never started
    EXPECT_TRUE(front.state(Request::set_vring_base, 0, 9));
    EXPECT_EQ(*front.base(0), 9U);
}

TEST(DeviceProtocol, stopped_queue_starts_again_with_what_was_kept) {
    Conversation front;
    front.run(1);
    EXPECT_TRUE(front.event(Request::set_vring_call, 1));
    EXPECT_EQ(*front.base(1), 7U);
    front.device.take();
    EXPECT_TRUE(front.state(Request::set_vring_base, 1, 7));
    EXPECT_TRUE(front.address(1));
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("start 1 base 7 enabled"));
    EXPECT_TRUE(front.device.running.at(1).call);
    EXPECT_EQ(front.device.running.at(1).layout.size, 64U);
}

TEST(DeviceProtocol, base_is_reported_even_when_requests_were_cut_off) {
    Conversation front;
    front.run(1);
    front.device.stop_error = Errno{ETIMEDOUT};
    EXPECT_EQ(*front.base(1), 7U);
}

TEST(DeviceProtocol, packed_ring_begins_with_wrap_counters_set) {
    Conversation front;
    constexpr std::uint64_t features = Conversation::kUsual | virtio::kFeatureRingPacked;
    EXPECT_TRUE(front.number(Request::set_features, features));
    EXPECT_TRUE(front.add_region(0));
    EXPECT_TRUE(front.state(Request::set_vring_num, 0, 63));
    EXPECT_TRUE(front.address(0));
    EXPECT_TRUE(front.event(Request::set_vring_kick, 0));
    EXPECT_EQ(front.device.running.at(0).layout.base, 0x80008000U);
    EXPECT_TRUE(front.device.running.at(0).layout.packed);
    front.device.base_at_stop = 0x80098009;
    EXPECT_EQ(*front.base(0), 0x80098009U);
}

TEST(DeviceProtocol, size_and_base_of_a_running_queue_stay) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.state(Request::set_vring_num, 0, 64));
    EXPECT_FALSE(front.state(Request::set_vring_num, 0, 32));
    EXPECT_FALSE(front.state(Request::set_vring_base, 0, 3));
    EXPECT_THAT(front.device.calls, IsEmpty());
}

TEST(DeviceProtocol, new_addresses_restart_and_the_same_ones_do_not) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.address(0));
    EXPECT_THAT(front.device.take(), IsEmpty());
    EXPECT_FALSE(front.address(0, 5)); // no such memory
    EXPECT_THAT(front.device.take(), IsEmpty());
    EXPECT_TRUE(front.add_region(1));
    EXPECT_TRUE(front.address(0, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("memory 2", "stop 0", "start 0 base 7 enabled"));
}

TEST(DeviceProtocol, impossible_sizes_bases_addresses_and_indexes_are_refused) {
    Conversation front;
    EXPECT_TRUE(front.number(Request::set_features, Conversation::kUsual));
    front.device.take();
    EXPECT_FALSE(front.state(Request::set_vring_num, 0, 0));
    EXPECT_FALSE(front.state(Request::set_vring_num, 0, 65536));
    EXPECT_FALSE(front.state(Request::set_vring_num, 0, 100));
    EXPECT_TRUE(front.state(Request::set_vring_num, 0, 32768));
    EXPECT_FALSE(front.state(Request::set_vring_base, 0, 65536));
    EXPECT_FALSE(front.acknowledged(
        Request::set_vring_addr,
        encode(VringAddress{.index = 0, .flags = 0, .descriptor = 8, .used = 0, .available = 0, .log = 0})));
    EXPECT_FALSE(front.state(Request::set_vring_enable, 0, 2));
    for (const std::uint32_t index : {3U, 255U, 0xffffffffU}) {
        EXPECT_FALSE(front.state(Request::set_vring_num, index, 64));
        EXPECT_FALSE(front.state(Request::set_vring_base, index, 0));
        EXPECT_FALSE(front.state(Request::set_vring_enable, index, 1));
        EXPECT_FALSE(front.address(index));
        EXPECT_FALSE(front.base(index)); // no answer fits: the connection ends
    }
    EXPECT_FALSE(front.event(Request::set_vring_kick, 255));
    EXPECT_FALSE(front.event(Request::set_vring_call, 3));
    EXPECT_FALSE(front.event(Request::set_vring_err, 3 | kVringNoFd));
    EXPECT_THAT(front.device.calls, IsEmpty());
}

TEST(DeviceProtocol, ring_outside_memory_is_refused_at_its_kick) {
    Conversation front;
    front.set_up(1);
    EXPECT_TRUE(front.address(1, 5));
    EXPECT_FALSE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.calls, IsEmpty());
}

TEST(DeviceProtocol, start_that_fails_is_reported_and_can_be_tried_again) {
    Conversation front;
    front.set_up(1);
    front.device.refuse_start = Errno{ENOMEM};
    EXPECT_FALSE(front.event(Request::set_vring_kick, 1));
    front.device.refuse_start.reset();
    front.device.take();
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.calls, ElementsAre("start 1 base 3"));
}

TEST(DeviceProtocol, events_come_with_one_eventfd_or_with_the_bit_that_says_none) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.event(Request::set_vring_call, 0));
    EXPECT_TRUE(front.event(Request::set_vring_call, 0 | kVringNoFd));
    EXPECT_TRUE(front.event(Request::set_vring_err, 0));
    EXPECT_THAT(front.device.take(), ElementsAre("call 0", "call 0 none", "error 0"));

    EXPECT_FALSE(front.number(Request::set_vring_call, 0)); // promised, not there
    std::vector<Fd> one;
    one.push_back(event_fd());
    EXPECT_FALSE(front.number(Request::set_vring_call, kVringNoFd, std::move(one)));
    std::vector<Fd> two;
    two.push_back(event_fd());
    two.push_back(event_fd());
    EXPECT_FALSE(front.number(Request::set_vring_kick, 0, std::move(two)));
    std::vector<Fd> file;
    file.push_back(test::memory_file(4096));
    EXPECT_FALSE(front.number(Request::set_vring_call, 0, std::move(file)));
    EXPECT_THAT(front.device.take(), IsEmpty());
}

TEST(DeviceProtocol, event_descriptors_are_made_non_blocking) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.event(Request::set_vring_call, 0));
    EXPECT_NE(::fcntl(front.device.running.at(0).call.get(), F_GETFL) & O_NONBLOCK, 0);
}

TEST(DeviceProtocol, polled_queue_starts_without_a_kick_descriptor) {
    Conversation front;
    front.set_up(0);
    EXPECT_TRUE(front.event(Request::set_vring_kick, kVringNoFd));
    ASSERT_TRUE(front.device.running.contains(0));
    EXPECT_FALSE(front.device.running.at(0).kick);
}

TEST(DeviceProtocol, memory_of_a_running_ring_cannot_be_taken_away) {
    Conversation front;
    front.run(0);
    EXPECT_TRUE(front.add_region(1));
    EXPECT_FALSE(front.acknowledged(Request::rem_mem_reg, Conversation::single(0)));
    EXPECT_TRUE(front.acknowledged(Request::rem_mem_reg, Conversation::single(1)));
    EXPECT_FALSE(front.acknowledged(Request::rem_mem_reg, Conversation::single(1)));
    EXPECT_FALSE(front.acknowledged(Request::set_mem_table, encode(TableHeader{.count = 0, .padding = 0})));
    EXPECT_THAT(front.device.take(), ElementsAre("memory 2", "memory 1 drain"));
}

TEST(DeviceProtocol, memory_that_the_device_refuses_is_not_in_force) {
    Conversation front;
    EXPECT_TRUE(front.add_region(0));
    front.device.refuse_memory = Errno{ETIMEDOUT};
    EXPECT_FALSE(front.acknowledged(Request::rem_mem_reg, Conversation::single(0)));
    front.device.refuse_memory.reset();
    EXPECT_FALSE(front.add_region(0)); // still there: it overlaps
}

TEST(DeviceProtocol, table_needs_one_descriptor_per_region) {
    Conversation front;
    auto payload = encode(TableHeader{.count = 2, .padding = 0});
    for (const std::uint64_t number : {0, 1}) {
        const auto region = Conversation::single(number);
        payload.insert(payload.end(), region.begin() + 8, region.end());
    }
    for (const std::size_t count : {0UL, 1UL, 3UL}) {
        std::vector<Fd> fds;
        for (std::size_t made = 0; made < count; ++made) fds.push_back(test::memory_file(test::kRegionBytes));
        EXPECT_FALSE(front.acknowledged(Request::set_mem_table, payload, std::move(fds)));
    }
    std::vector<Fd> fds;
    for (int made = 0; made < 2; ++made) fds.push_back(test::memory_file(test::kRegionBytes));
    EXPECT_TRUE(front.acknowledged(Request::set_mem_table, payload, std::move(fds)));
    EXPECT_THAT(front.device.calls, ElementsAre("memory 2"));
}

TEST(DeviceProtocol, reset_keeps_memory_and_error_descriptors_and_forgets_rings) {
    Conversation front;
    EXPECT_TRUE(front.event(Request::set_vring_err, 1));
    front.run(1);
    EXPECT_TRUE(front.acknowledged(Request::reset_device));
    EXPECT_THAT(front.device.take(), ElementsAre("reset", "features", "memory 1"));
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1)); // nothing is known of the ring
    EXPECT_THAT(front.device.take(), IsEmpty());

    EXPECT_EQ(*front.base(1), 0U);
    front.run(1);
    EXPECT_TRUE(front.device.running.at(1).error);
    EXPECT_TRUE(front.device.running.at(1).enabled);
}

TEST(DeviceProtocol, reset_leaves_queues_disabled_until_they_are_enabled) {
    Conversation front;
    front.run(1);
    EXPECT_TRUE(front.acknowledged(Request::reset_device));
    front.device.take();
    front.set_up(1);
    EXPECT_TRUE(front.event(Request::set_vring_kick, 1));
    EXPECT_THAT(front.device.take(), ElementsAre("start 1 base 3"));
}

TEST(DeviceProtocol, reset_owner_disables_the_rings) {
    Conversation front;
    front.run(1);
    EXPECT_TRUE(front.acknowledged(Request::reset_owner));
    EXPECT_THAT(front.device.take(), ElementsAre("disable 1"));
}

TEST(DeviceProtocol, configuration_is_there_only_when_the_device_has_one) {
    Conversation front;
    auto question = encode(ConfigHeader{.offset = 2, .size = 3, .flags = 0});
    question.resize(question.size() + 3);
    const auto none = front.send(Request::get_config, question);
    ASSERT_TRUE(none);
    EXPECT_EQ(none->size(), sizeof(Header)); // an empty payload says "failed"

    front.device.config_space.assign(10, std::byte{'t'});
    EXPECT_NE(front.ask(Request::get_protocol_features) & kProtocolConfig, 0U);
    const auto some = front.send(Request::get_config, question);
    ASSERT_TRUE(some);
    ASSERT_EQ(some->size(), sizeof(Header) + question.size());
    EXPECT_EQ(some->back(), std::byte{'t'});

    for (const auto& [offset, size] : {std::pair{8U, 3U}, {11U, 0U}, {0U, 257U}, {0xffffffffU, 2U}}) {
        const auto beyond =
            front.send(Request::get_config, encode(ConfigHeader{.offset = offset, .size = size, .flags = 0}));
        EXPECT_EQ(beyond->size(), sizeof(Header)) << offset;
    }
    EXPECT_FALSE(front.acknowledged(Request::set_config, question)); // other bytes
    auto same = encode(ConfigHeader{.offset = 2, .size = 3, .flags = 1});
    same.resize(same.size() + 3, std::byte{'t'});
    EXPECT_TRUE(front.acknowledged(Request::set_config, same));
}

TEST(DeviceProtocol, backend_channel_is_a_socket) {
    Conversation front;
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd other{pair[1]};
    std::vector<Fd> fds;
    fds.emplace_back(pair[0]);
    EXPECT_TRUE(front.acknowledged(Request::set_backend_req_fd, {}, std::move(fds)));
    EXPECT_EQ(front.protocol.backend_channel().get(), pair[0]);
    std::vector<Fd> wrong;
    wrong.push_back(event_fd());
    EXPECT_FALSE(front.acknowledged(Request::set_backend_req_fd, {}, std::move(wrong)));
    EXPECT_FALSE(front.acknowledged(Request::set_backend_req_fd));
}

TEST(DeviceProtocol, unknown_requests_are_refused_when_they_ask_and_passed_over_otherwise) {
    Conversation front;
    for (const std::uint32_t request : {0U, 6U, 7U, 19U, 31U, 35U, 39U, 44U, 4711U, 0xffffffffU}) {
        EXPECT_FALSE(front.acknowledged(static_cast<Request>(request), encode(1ULL))) << request;
        const auto silent = front.send(static_cast<Request>(request));
        ASSERT_TRUE(silent);
        EXPECT_TRUE(silent->empty());
    }
    EXPECT_TRUE(front.acknowledged(Request::set_owner));
}

TEST(DeviceProtocol, every_request_that_asks_gets_one_answer) {
    for (std::uint32_t request = 1; request <= 60; ++request) {
        for (const std::size_t bytes : {0UL, 4UL, 8UL, 40UL, 264UL, 4096UL}) {
            Conversation front;
            const auto reply =
                front.send(static_cast<Request>(request), std::vector<std::byte>(bytes), {}, kFlagNeedReply);
            if (!reply) {
                EXPECT_EQ(static_cast<Request>(request), Request::get_vring_base); // no way to say no
                continue;
            }
            const auto header = decode<Header>(std::span{*reply}.first(sizeof(Header)));
            EXPECT_EQ(header->request, request);
            EXPECT_EQ(header->size, reply->size() - sizeof(Header));
        }
    }
}

TEST(DeviceProtocol, descriptors_that_a_request_does_not_take_are_closed) {
    Conversation front;
    const std::size_t before = test::open_fds();
    std::vector<Fd> fds;
    for (int count = 0; count < 3; ++count) fds.push_back(event_fd());
    const auto reply = front.send(Request::get_features, {}, std::move(fds));
    ASSERT_TRUE(reply);
    EXPECT_EQ(reply->size(), sizeof(Header) + 8);
    EXPECT_EQ(test::open_fds(), before);
}

TEST(DeviceProtocol, reply_in_place_of_a_request_ends_the_connection) {
    Conversation front;
    EXPECT_FALSE(front.send(Request::get_features, {}, {}, kFlagReply));
}

} // namespace
} // namespace viaduct::vhost
