// SPDX-License-Identifier: Apache-2.0
//
// Messages that the socket has cut up, that end too early, or that no honest front end sends.
#include "support/raw_guest.h"
#include "support/served_share.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using vhost::kFlagNeedReply;
using vhost::Request;

class Messages : public testing::Test {
protected:
    std::unique_ptr<RawGuest> connect(bool negotiate = true) {
        return RawGuest::connect({.socket = share.socket(), .negotiate = negotiate, .timeout = kPatience});
    }
    // A whole life of a front end.
    testing::AssertionResult serves_the_next() {
        const auto guest = connect();
        if (!guest || !guest->start_session(1)) return testing::AssertionFailure() << "no session";
        return guest->serves(1);
    }
    // What the daemon has open while nobody is connected.
    std::size_t idle_fds() {
        EXPECT_TRUE(serves_the_next());
        std::size_t least = SIZE_MAX;
        wait_until(
            [&] {
                least = std::min(least, share.daemon().open_fds());
                return false;
            },
            100ms);
        return least;
    }
    testing::AssertionResult fds_come_back_to(std::size_t count) {
        if (wait_until([&] { return share.daemon().open_fds() <= count; }, kPatience))
            return testing::AssertionSuccess();
        return testing::AssertionFailure() << count << " became " << share.daemon().open_fds();
    }
    static std::vector<std::byte> table(const RawGuest& guest, std::uint32_t count) {
        auto payload = vhost::encode(vhost::TableHeader{.count = count, .padding = 0});
        for (std::uint32_t index = 0; index < count; ++index) {
            const std::uint64_t offset = 4096ULL * index;
            const auto region = vhost::encode(vhost::WireRegion{.guest_address = RawGuest::address(offset),
                                                                .bytes = 4096,
                                                                .user_address = guest.user(offset),
                                                                .mmap_offset = offset});
            payload.insert(payload.end(), region.begin(), region.end());
        }
        return payload;
    }
    // 0: it was done; 1: refused.
    static std::optional<std::uint64_t> verdict(RawGuest& guest) {
        const auto reply = guest.front_end().receive();
        if (!reply) return std::nullopt;
        const auto value = vhost::decode<std::uint64_t>(reply->payload);
        return value ? std::optional{*value} : std::nullopt;
    }
    ServedShare share;
};

TEST_F(Messages, each_may_come_byte_by_byte) {
    const auto guest = connect(false);
    ASSERT_TRUE(guest);
    auto& front_end = guest->front_end();
    // Descriptors come with the first byte.
    const auto send = [&](Request request, std::span<const std::byte> payload, std::vector<int> fds = {},
                          std::uint32_t flags = 0) {
        for (const std::byte byte : vhost::frame(request, flags, payload)) {
            ASSERT_TRUE(front_end.send_raw({&byte, 1}, fds));
            fds.clear();
            std::this_thread::sleep_for(100us);
        }
    };
    const auto ask = [&](Request request, std::span<const std::byte> payload = {}) {
        send(request, payload);
        const auto reply = front_end.receive();
        EXPECT_TRUE(reply) << vhost::name_of(request);
        if (!reply) return std::uint64_t{0};
        EXPECT_EQ(reply->request(), request);
        return vhost::decode<std::uint64_t>(reply->payload).value_or(0);
    };
    const auto tell = [&](Request request, std::span<const std::byte> payload, std::vector<int> fds = {}) {
        send(request, payload, std::move(fds), kFlagNeedReply);
        EXPECT_EQ(verdict(*guest), 0U) << vhost::name_of(request);
    };
    const auto number = [](std::uint64_t value) { return vhost::encode(value); };
    const auto state = [](std::uint32_t value) {
        return vhost::encode(vhost::VringState{.index = 1, .num = value});
    };

    EXPECT_NE(ask(Request::get_features) & vhost::kFeatureProtocolFeatures, 0U);
    const std::uint64_t protocol = ask(Request::get_protocol_features);
    EXPECT_NE(protocol, 0U);
    tell(Request::set_protocol_features, number(protocol));
    EXPECT_EQ(ask(Request::get_queue_num), 5U);
    EXPECT_GE(ask(Request::get_max_mem_slots), 509U);
    tell(Request::set_owner, {});
    tell(Request::set_features, number(guest->wanted_features() | vhost::kFeatureProtocolFeatures));
    const vhost::WireRegion all{.guest_address = RawGuest::address(0),
                                .bytes = guest->bytes(),
                                .user_address = guest->user(0),
                                .mmap_offset = 0};
    auto memory = vhost::encode(vhost::TableHeader{.count = 1, .padding = 0});
    for (const std::byte byte : vhost::encode(all)) memory.push_back(byte);
    tell(Request::set_mem_table, memory, {guest->file()});
    tell(Request::rem_mem_reg, vhost::encode(vhost::SingleRegion{.padding = 0, .region = all}));
    tell(Request::add_mem_reg, vhost::encode(vhost::SingleRegion{.padding = 0, .region = all}),
         {guest->file()});
    tell(Request::set_vring_num, state(64));
    tell(Request::set_vring_base, state(0));
    const auto addresses = guest->ring_addresses(1);
    tell(Request::set_vring_addr, vhost::encode(vhost::VringAddress{.index = 1,
                                                                    .flags = 0,
                                                                    .descriptor = addresses.descriptor,
                                                                    .used = addresses.device,
                                                                    .available = addresses.driver,
                                                                    .log = 0}));
    tell(Request::set_vring_call, number(1), {guest->call_fd(1)});
    tell(Request::set_vring_err, number(1), {guest->error_fd(1)});
    tell(Request::set_vring_kick, number(1), {guest->kick_fd(1)});
    tell(Request::set_vring_enable, state(1));
    ASSERT_TRUE(guest->say(1, init_request()));
    EXPECT_TRUE(guest->serves(1));
    EXPECT_EQ(ask(Request::get_vring_base, state(0)) >> 32, 2U);
    tell(Request::reset_device, {});
    tell(Request::reset_owner, {});
}

TEST_F(Messages, many_may_come_at_once_and_cut_anywhere) {
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const auto guest = connect();
    ASSERT_TRUE(guest);
    std::vector<std::byte> stream;
    constexpr int kCount = 300;
    for (int count = 0; count < kCount; ++count) {
        const auto message =
            vhost::frame(Request::set_vring_num, kFlagNeedReply,
                         vhost::encode(vhost::VringState{.index = 1, .num = count % 2 == 0 ? 64U : 63U}));
        stream.insert(stream.end(), message.begin(), message.end());
    }
    std::span<const std::byte> left{stream};
    while (!left.empty()) {
        const std::size_t part = std::min<std::size_t>(left.size(), 1 + random() % 200);
        ASSERT_TRUE(guest->front_end().send_raw(left.first(part)));
        left = left.subspan(part);
    }
    for (int count = 0; count < kCount; ++count)
        ASSERT_EQ(verdict(*guest), count % 2 == 0 ? 0U : 1U) << count;
    ASSERT_TRUE(guest->start_session(1));
    EXPECT_TRUE(guest->serves(1));
}

TEST_F(Messages, an_end_in_mid_message_is_the_end_of_that_connection_only) {
    const std::size_t before = idle_fds();
    std::vector<std::byte> whole;
    {
        const auto guest = connect(false);
        ASSERT_TRUE(guest);
        whole = vhost::frame(Request::set_mem_table, kFlagNeedReply, table(*guest, 2));
    }
    // All of a header's places, and some of the payload's.
    for (std::size_t bytes = 0; bytes < whole.size(); bytes += bytes < 14 ? 1 : 7) {
        const auto guest = connect(false);
        ASSERT_TRUE(guest);
        if (bytes == 0) continue;
        ASSERT_TRUE(
            guest->front_end().send_raw(std::span{whole}.first(bytes), {{guest->file(), guest->file()}}));
    }
    EXPECT_TRUE(serves_the_next());
    EXPECT_TRUE(fds_come_back_to(before));
}

TEST_F(Messages, a_table_with_another_number_of_descriptors_than_regions_is_refused_and_all_are_closed) {
    const std::size_t idle = idle_fds();
    {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(1));
        const std::size_t before = share.daemon().open_fds();
        for (const std::size_t count : {0U, 1U, 3U, 7U, 8U, 9U, 30U}) {
            const std::vector<int> fds(count, guest->file());
            ASSERT_TRUE(guest->front_end().send_request(Request::set_mem_table, table(*guest, 2), fds,
                                                        kFlagNeedReply));
            EXPECT_EQ(verdict(*guest), 1U) << count << " descriptors";
            EXPECT_TRUE(fds_come_back_to(before)) << count << " descriptors";
            EXPECT_TRUE(guest->serves(1)) << count << " descriptors";
        }
        // Nine regions are more than a table has.
        const std::vector<int> nine(9, guest->file());
        ASSERT_TRUE(
            guest->front_end().send_request(Request::set_mem_table, table(*guest, 9), nine, kFlagNeedReply));
        EXPECT_EQ(verdict(*guest), 1U);
        EXPECT_TRUE(fds_come_back_to(before));
        EXPECT_TRUE(guest->serves(1));
    }
    EXPECT_TRUE(serves_the_next());
    EXPECT_TRUE(fds_come_back_to(idle));
}

TEST_F(Messages, descriptors_that_a_request_does_not_take_are_closed) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    const std::vector<int> three(3, guest->file());
    for (int round = 0; round < 50; ++round) {
        ASSERT_TRUE(guest->front_end().send_request(Request::get_features, {}, three));
        const auto reply = guest->front_end().receive();
        ASSERT_TRUE(reply);
        EXPECT_EQ(reply->request(), Request::get_features);
    }
    // Two where one belongs.
    const std::vector<int> two(2, guest->kick_fd(1));
    for (const Request request :
         {Request::set_vring_kick, Request::set_vring_call, Request::set_vring_err, Request::add_mem_reg}) {
        const auto payload = request == Request::add_mem_reg ? vhost::encode(vhost::SingleRegion{})
                                                             : vhost::encode(std::uint64_t{1});
        ASSERT_TRUE(guest->front_end().send_request(request, payload, two, kFlagNeedReply));
        EXPECT_EQ(verdict(*guest), 1U) << vhost::name_of(request);
    }
    EXPECT_TRUE(fds_come_back_to(before));
    EXPECT_TRUE(guest->serves(1));
}

TEST_F(Messages, a_size_that_no_message_has_ends_the_connection_and_takes_no_memory) {
    const std::size_t before = idle_fds();
    for (const std::uint32_t size : {4097U, 1U << 20, 1U << 31, UINT32_MAX}) {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        ASSERT_TRUE(guest->start_session(1));
        const vhost::Header header{.request = static_cast<std::uint32_t>(Request::set_features),
                                   .flags = vhost::kFlagVersion | kFlagNeedReply,
                                   .size = size};
        const std::vector<int> fds(2, guest->file());
        ASSERT_TRUE(guest->front_end().send_raw(vhost::encode(header), fds));
        EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE}) << size;
    }
    EXPECT_TRUE(serves_the_next());
    EXPECT_TRUE(fds_come_back_to(before));
}

TEST_F(Messages, a_reply_or_another_version_ends_the_connection) {
    for (const std::uint32_t flags : {0U, 2U, 3U, vhost::kFlagVersion | vhost::kFlagReply}) {
        const auto guest = connect();
        ASSERT_TRUE(guest);
        const vhost::Header header{
            .request = static_cast<std::uint32_t>(Request::get_features), .flags = flags, .size = 0};
        ASSERT_TRUE(guest->front_end().send_raw(vhost::encode(header)));
        EXPECT_EQ(guest->front_end().receive().error(), Errno{EPIPE}) << flags;
    }
    EXPECT_TRUE(serves_the_next());
}

TEST_F(Messages, a_region_that_cannot_be_mapped_is_refused_and_the_memory_stays) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    const auto good = guest->region(0, guest->bytes());
    const auto with = [&](const std::function<void(vhost::RegionDescription&)>& change) {
        vhost::SharedRegion region = guest->region(0, 4096);
        region.description.guest_address = 1ULL << 44;
        region.description.user_address = 1ULL << 44;
        change(region.description);
        return region;
    };
    const std::vector<vhost::SharedRegion> bad{
        with([](auto& region) { region.bytes = 1ULL << 60; }),
        with([](auto& region) { region.bytes = 1ULL << 47; }),
        with([](auto& region) { region.bytes = UINT64_MAX; }),
        with([](auto& region) { region.bytes = 0; }),
        with([](auto& region) { region.mmap_offset = UINT64_MAX; }),
        with([](auto& region) { region.mmap_offset = 1ULL << 63; }),
        with([](auto& region) { region.guest_address = UINT64_MAX - 10; }),
        with([](auto& region) { region.user_address = UINT64_MAX - 10; }),
    };
    for (std::size_t index = 0; index < bad.size(); ++index) {
        EXPECT_EQ(guest->front_end().set_memory({{good, bad[index]}}).error(), Errno{EREMOTEIO}) << index;
        EXPECT_EQ(guest->front_end().add_region(bad[index]).error(), Errno{EREMOTEIO}) << index;
        EXPECT_TRUE(guest->serves(1)) << index;
    }
    // Not a file at all.
    for (const int fd : {guest->kick_fd(1), guest->call_fd(1)}) {
        auto region = with([](auto&) {});
        region.fd = fd;
        EXPECT_EQ(guest->front_end().add_region(region).error(), Errno{EREMOTEIO});
    }
    // Two that overlap.
    auto overlapping = guest->region(4096, 4096);
    EXPECT_EQ(guest->front_end().add_region(overlapping).error(), Errno{EREMOTEIO});
    EXPECT_TRUE(fds_come_back_to(before));
    EXPECT_TRUE(guest->serves(1));
}

TEST_F(Messages, an_unknown_request_is_refused_when_an_answer_is_asked_for_and_passed_over_when_not) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    const std::size_t before = share.daemon().open_fds();
    const std::vector<int> fds(2, guest->file());
    for (const std::uint32_t request : {0U,  6U,  7U,  19U, 20U, 22U, 23U, 26U,   28U,      29U,
                                        30U, 33U, 35U, 39U, 44U, 63U, 64U, 1000U, 1U << 31, UINT32_MAX}) {
        for (const std::size_t bytes : {0U, 8U, 4096U}) {
            const std::vector<std::byte> payload(bytes);
            ASSERT_TRUE(guest->front_end().send_request(Request{request}, payload, fds, kFlagNeedReply));
            EXPECT_EQ(verdict(*guest), 1U) << request;
            ASSERT_TRUE(guest->front_end().send_request(Request{request}, payload, fds));
            // The next answer is that of the next request.
            EXPECT_EQ(guest->front_end().get_queue_num(), 5U) << request;
        }
    }
    EXPECT_TRUE(fds_come_back_to(before));
    EXPECT_TRUE(guest->serves(1));
}

TEST_F(Messages, a_payload_of_another_size_is_refused) {
    const auto guest = connect();
    ASSERT_TRUE(guest);
    ASSERT_TRUE(guest->start_session(1));
    for (const Request request :
         {Request::set_features, Request::set_protocol_features, Request::set_mem_table,
          Request::set_vring_num, Request::set_vring_addr, Request::set_vring_base, Request::set_vring_kick,
          Request::set_vring_call, Request::set_vring_err, Request::set_vring_enable, Request::add_mem_reg,
          Request::rem_mem_reg, Request::set_config}) {
        for (const std::size_t bytes : {0U, 1U, 7U, 9U, 39U, 41U, 4096U}) {
            const std::vector<std::byte> payload(bytes, std::byte{0x11});
            ASSERT_TRUE(guest->front_end().send_request(request, payload, {}, kFlagNeedReply));
            EXPECT_EQ(verdict(*guest), 1U) << vhost::name_of(request) << ", " << bytes << " bytes";
        }
    }
    EXPECT_TRUE(guest->serves(1));
}

TEST_F(Messages, noise_ends_the_connection_or_is_refused_and_the_daemon_goes_on) {
    const std::size_t before = idle_fds();
    const unsigned seed = std::random_device{}();
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    for (int round = 0; round < 100; ++round) {
        const auto guest = connect(round % 2 == 0);
        ASSERT_TRUE(guest);
        std::vector<std::byte> noise(1 + random() % 500);
        for (std::byte& byte : noise) byte = static_cast<std::byte>(random());
        if (round % 4 < 2 && noise.size() > 12) { // a header that is believed
            noise[4] = std::byte{1};
            noise[5] = noise[6] = noise[7] = noise[1] = noise[2] = noise[3] = std::byte{0};
            noise[0] = static_cast<std::byte>(random() % 45);
        }
        const std::vector<int> fds(random() % 4, guest->file());
        (void)guest->front_end().send_raw(noise, fds);
    }
    EXPECT_TRUE(serves_the_next());
    EXPECT_TRUE(fds_come_back_to(before));
}

} // namespace
} // namespace viaduct::test
