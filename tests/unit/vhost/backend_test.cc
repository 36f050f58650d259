// SPDX-License-Identifier: Apache-2.0
//
// A Backend on a worker, spoken to over a socket pair.
#include "vhost/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rt/worker.h"
#include "support/on_worker.h"
#include "support/waiting.h"
#include "unit/vhost/recording_device.h"
#include "vhost/event_fd.h"

#include <future>
#include <sys/socket.h>
#include <thread>

namespace viaduct::vhost {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;

rt::Task<void> serve(Backend& backend, Status& result) {
    result = co_await backend.serve();
}

class Connection {
public:
    // The worker's until finish(): on_worker() gets at it before.
    test::RecordingDevice device;

    explicit Connection(std::chrono::milliseconds timeout = 60s)
        : front(FrontEnd::adopt(make_pair(), timeout)) {
        auto started = rt::Worker::start({.name = "control"});
        EXPECT_TRUE(started);
        worker_ = std::move(*started);
        backend_.emplace(std::move(backend_socket_), device);
        serving_ = std::thread{[this] { viaduct::test::run_on(*worker_, serve(*backend_, status_)); }};
    }
    ~Connection() { finish(); }

    // The front end leaves; how the back end saw it.
    Status finish() {
        if (!serving_.joinable()) return status_;
        {
            const FrontEnd leaving = std::move(front);
        }
        return wait();
    }
    // The back end has ended by itself.
    Status wait() {
        serving_.join();
        return status_;
    }
    // Calls `function` on the worker and waits for it.
    template <class Function> auto on_worker(Function function) {
        struct Call final : rt::Message {
            Function& function;
            std::promise<std::invoke_result_t<Function&>> result;
            explicit Call(Function& f) : function(f) {}
            void deliver() override {
                if constexpr (std::is_void_v<std::invoke_result_t<Function&>>) {
                    function();
                    result.set_value();
                } else {
                    result.set_value(function());
                }
            }
        };
        Call message{function};
        worker_->post(message);
        return message.result.get_future().get();
    }
    // What the device was asked since the last time.
    std::vector<std::string> take() {
        return on_worker([this] { return device.take(); });
    }
    // Ends serve() from the worker.
    void stop() {
        on_worker([this] { backend_->stop(); });
        serving_.join();
    }

    void share(std::initializer_list<std::uint64_t> numbers) {
        for (const std::uint64_t number : numbers) {
            files.push_back(test::memory_file(test::kRegionBytes));
            regions.push_back({.description = test::region(number), .fd = files.back().get()});
        }
    }
    // What QEMU sends for one queue when the driver is ready.
    void set_up(std::uint32_t index, std::uint32_t base = 0) {
        EXPECT_TRUE(front.set_vring_num(index, 64));
        EXPECT_TRUE(front.set_vring_base(index, base));
        EXPECT_TRUE(front.set_vring_address(index, test::ring_of(index)));
        EXPECT_TRUE(front.set_vring_kick(index, kick.get()));
    }

    Fd kick = test::event_fd();
    Fd call = test::event_fd();
    std::vector<Fd> files;
    std::vector<SharedRegion> regions;

private:
    Fd make_pair() {
        int pair[2];
        EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
        backend_socket_ = Fd{pair[0]};
        return Fd{pair[1]};
    }

    Fd backend_socket_;
    std::unique_ptr<rt::Worker> worker_;
    std::optional<Backend> backend_;
    Status status_;
    std::thread serving_;

public:
    FrontEnd front;
};

// A thread that has just ended may not have closed its last descriptor yet.
bool comes_back_to(std::size_t count) {
    return ::viaduct::test::wait_until([count] { return test::open_fds() == count; },
                                       ::viaduct::test::kPatience);
}

// For counting descriptors: what the first connection and the first eventfd leave behind for good is there.
std::size_t fds_at_rest() {
    prepare_event_checks();
    {
        Connection first;
    }
    return test::open_fds();
}

TEST(Backend, front_end_that_leaves_ends_it_and_resets_the_device) {
    Connection connection;
    EXPECT_TRUE(connection.front.set_owner());
    EXPECT_TRUE(connection.finish());
    EXPECT_THAT(connection.device.calls, ElementsAre("reset"));
}

TEST(Backend, stop_ends_it_in_order) {
    Connection connection;
    EXPECT_TRUE(connection.front.get_features());
    connection.stop();
    EXPECT_TRUE(connection.finish());
    EXPECT_THAT(connection.device.calls, ElementsAre("reset"));
}

// QEMU 10: start, driver ready, stop with device reset, and ready again with no memory message.
TEST(Backend, order_of_messages_of_qemu_10) {
    Connection connection;
    FrontEnd& front = connection.front;
    connection.share({0, 1});
    constexpr std::uint64_t kFeatures = virtio::kFeatureIndirectDesc | virtio::kFeatureEventIdx |
                                        virtio::kFeatureVersion1 | virtio::kFeatureRingReset;
    int channel[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel), 0);
    const Fd ours{channel[0]};
    Fd theirs{channel[1]};

    ASSERT_TRUE(front.get_features());
    ASSERT_TRUE(front.get_protocol_features());
    ASSERT_TRUE(front.set_protocol_features(kProtocolMq | kProtocolReplyAck | kProtocolBackendReq |
                                            kProtocolResetDevice | kProtocolConfigureMemSlots));
    EXPECT_EQ(*front.get_queue_num(), 3U);
    EXPECT_EQ(*front.get_memory_slots(), kMemorySlotsMax);
    EXPECT_TRUE(front.set_backend_channel(theirs.get()));
    theirs.reset();
    EXPECT_TRUE(front.set_owner());
    ASSERT_TRUE(front.get_features());
    for (std::uint32_t queue = 0; queue < 3; ++queue) {
        EXPECT_TRUE(front.set_vring_call(queue, connection.call.get()));
        EXPECT_TRUE(front.set_vring_error(queue, connection.call.get()));
    }
    EXPECT_TRUE(front.reset_device());
    EXPECT_THAT(connection.take(), ElementsAre("reset", "features", "memory 0"));

    const auto make_ready = [&](bool with_memory) {
        for (std::uint32_t queue = 0; queue < 3; ++queue)
            EXPECT_TRUE(front.set_vring_call(queue, connection.call.get()));
        EXPECT_TRUE(front.set_features(kFeatures | kFeatureProtocolFeatures));
        if (with_memory) {
            EXPECT_TRUE(front.add_region(connection.regions[0]));
            EXPECT_TRUE(front.add_region(connection.regions[1]));
        }
        for (std::uint32_t queue = 0; queue < 3; ++queue) connection.set_up(queue);
        for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_TRUE(front.set_vring_enable(queue, true));
        for (std::uint32_t queue = 0; queue < 3; ++queue)
            EXPECT_TRUE(front.set_vring_call(queue, connection.call.get()));
    };
    const std::vector<std::string> running{"start 0 base 0", "start 1 base 0", "start 2 base 0",
                                           "enable 0",       "enable 1",       "enable 2",
                                           "call 0",         "call 1",         "call 2"};

    make_ready(true);
    std::vector<std::string> expected{"features", "memory 1", "memory 2"};
    expected.insert(expected.end(), running.begin(), running.end());
    EXPECT_THAT(connection.take(), ElementsAreArray(expected));
    EXPECT_TRUE(connection.on_worker(
        [&] { return bool{connection.device.running.at(2).error}; })); // sent once, before the first reset

    for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_TRUE(front.set_vring_enable(queue, false));
    for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_EQ(*front.get_vring_base(queue), 7U);
    for (std::uint32_t queue = 0; queue < 3; ++queue)
        EXPECT_TRUE(front.set_vring_call(queue, connection.call.get()));
    EXPECT_TRUE(front.reset_device());
    EXPECT_THAT(connection.take(), ElementsAre("disable 0", "disable 1", "disable 2", "stop 0", "stop 1",
                                               "stop 2", "reset", "features", "memory 2"));

    make_ready(false);
    expected = {"features"};
    expected.insert(expected.end(), running.begin(), running.end());
    EXPECT_THAT(connection.take(), ElementsAreArray(expected));
    EXPECT_TRUE(connection.finish());
}

// QEMU 7.2: no acknowledgements after the start, no reset of the device; firmware drives queue 0 alone and
// enables all, then the kernel drives all.
TEST(Backend, order_of_messages_of_qemu_7_with_firmware_first) {
    Connection connection;
    FrontEnd& front = connection.front;
    connection.share({0});
    ASSERT_TRUE(front.get_features());
    ASSERT_TRUE(front.get_protocol_features());
    ASSERT_TRUE(front.set_protocol_features(kProtocolMq));
    EXPECT_EQ(*front.get_queue_num(), 3U);
    EXPECT_TRUE(front.set_owner());
    for (std::uint32_t queue = 0; queue < 3; ++queue)
        EXPECT_TRUE(front.set_vring_call(queue, connection.call.get()));

    EXPECT_TRUE(front.set_features(virtio::kFeatureVersion1 | kFeatureProtocolFeatures));
    EXPECT_TRUE(front.set_memory(connection.regions));
    connection.set_up(0);
    for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_TRUE(front.set_vring_enable(queue, true));
    for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_TRUE(front.set_vring_enable(queue, false));
    EXPECT_EQ(*front.get_vring_base(0), 7U);
    EXPECT_THAT(connection.take(),
                ElementsAre("features", "memory 1", "start 0 base 0", "enable 0", "disable 0", "stop 0"));

    EXPECT_TRUE(
        front.set_features(virtio::kFeatureVersion1 | virtio::kFeatureEventIdx | kFeatureProtocolFeatures));
    EXPECT_TRUE(front.set_memory(connection.regions));
    for (std::uint32_t queue = 0; queue < 3; ++queue) connection.set_up(queue);
    for (std::uint32_t queue = 0; queue < 3; ++queue) EXPECT_TRUE(front.set_vring_enable(queue, true));
    ASSERT_TRUE(front.get_features());
    EXPECT_THAT(connection.take(), ElementsAre("features", "memory 1", "start 0 base 0", "start 1 base 0",
                                               "start 2 base 0", "enable 0", "enable 1", "enable 2"));
}

TEST(Backend, negotiate_takes_what_is_offered_and_wanted) {
    Connection connection;
    ASSERT_TRUE(connection.front.negotiate(virtio::kFeatureVersion1 | virtio::kFeatureEventIdx));
    EXPECT_EQ(connection.front.features(), virtio::kFeatureVersion1 | virtio::kFeatureEventIdx);
    EXPECT_NE(connection.front.protocol_features() & kProtocolReplyAck, 0U);
    EXPECT_EQ(connection.on_worker([&] { return connection.device.negotiated; }),
              connection.front.features());
}

TEST(Backend, messages_that_come_byte_by_byte_are_understood) {
    Connection connection;
    connection.share({0});
    auto bytes = frame(Request::get_features, 0, {});
    const auto num = frame(Request::set_vring_num, kFlagNeedReply, encode(VringState{.index = 1, .num = 64}));
    bytes.insert(bytes.end(), num.begin(), num.end());
    for (const std::byte& byte : bytes) {
        ASSERT_TRUE(connection.front.send_raw({&byte, 1}));
        std::this_thread::sleep_for(200us);
    }
    EXPECT_EQ(connection.front.receive()->request(), Request::get_features);
    EXPECT_EQ(decode<std::uint64_t>(connection.front.receive()->payload), 0U);
}

TEST(Backend, descriptors_come_with_the_first_byte_of_their_message) {
    Connection connection;
    const auto other = frame(Request::set_owner, 0, {});
    ASSERT_TRUE(connection.front.send_raw(other));
    const auto bytes = frame(Request::set_vring_call, kFlagNeedReply, encode(std::uint64_t{1}));
    const int call = connection.call.get();
    ASSERT_TRUE(connection.front.send_raw(std::span{bytes}.first(1), {&call, 1}));
    std::this_thread::sleep_for(1ms);
    ASSERT_TRUE(connection.front.send_raw(std::span{bytes}.subspan(1)));
    EXPECT_EQ(decode<std::uint64_t>(connection.front.receive()->payload), 0U);
}

TEST(Backend, many_requests_at_once_are_answered_in_order) {
    Connection connection;
    std::vector<std::byte> bytes;
    for (std::uint32_t size = 1; size <= 1000; ++size) {
        const auto one = frame(Request::get_vring_base, 0, encode(VringState{.index = size % 3, .num = 0}));
        bytes.insert(bytes.end(), one.begin(), one.end());
    }
    ASSERT_TRUE(connection.front.send_raw(bytes));
    for (std::uint32_t size = 1; size <= 1000; ++size) {
        const auto reply = connection.front.receive();
        ASSERT_TRUE(reply);
        EXPECT_EQ(decode<VringState>(reply->payload)->index, size % 3);
    }
}

TEST(Backend, end_in_the_middle_of_a_message_is_a_disconnect) {
    const std::size_t before = fds_at_rest();
    {
        Connection connection;
        const auto bytes = frame(Request::set_vring_call, 0, encode(std::uint64_t{1}));
        const int call = connection.call.get();
        ASSERT_TRUE(connection.front.send_raw(std::span{bytes}.first(7), {&call, 1}));
        EXPECT_TRUE(connection.finish());
        EXPECT_THAT(connection.device.calls, ElementsAre("reset"));
    }
    EXPECT_TRUE(comes_back_to(before)) << test::open_fds() << " descriptors, " << before << " before";
}

TEST(Backend, after_the_device_has_died_no_message_is_taken) {
    Connection connection;
    connection.share({0});
    ASSERT_TRUE(connection.front.negotiate(virtio::kFeatureVersion1));
    ASSERT_TRUE(connection.front.set_memory(connection.regions));
    connection.set_up(0);
    connection.take();
    connection.on_worker([&] {
        connection.device.stop_error = Errno{ETIMEDOUT};
        connection.device.dies_at_stop = true;
    });
    auto bytes = frame(Request::get_vring_base, 0, encode(VringState{.index = 0, .num = 0}));
    const auto next = frame(Request::set_features, 0, encode(std::uint64_t{0}));
    bytes.insert(bytes.end(), next.begin(), next.end());
    ASSERT_TRUE(connection.front.send_raw(bytes));
    const auto answer = connection.front.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->request(), Request::get_vring_base);
    EXPECT_TRUE(connection.wait());
    EXPECT_THAT(connection.device.calls, ElementsAre("stop 0", "reset"));
}

TEST(Backend, size_that_lies_ends_the_connection) {
    Connection connection;
    ASSERT_TRUE(
        connection.front.send_raw(encode(Header{.request = 5, .flags = kFlagVersion, .size = 1U << 31})));
    EXPECT_FALSE(connection.front.receive());
    const auto ended = connection.wait();
    ASSERT_FALSE(ended);
    EXPECT_EQ(ended.error(), Errno{EPROTO});
    EXPECT_THAT(connection.device.calls, ElementsAre("reset"));
}

TEST(Backend, replacing_descriptors_a_thousand_times_keeps_none) {
    const std::size_t before = fds_at_rest();
    {
        Connection connection;
        connection.share({0});
        ASSERT_TRUE(connection.front.negotiate(virtio::kFeatureVersion1));
        ASSERT_TRUE(connection.front.set_memory(connection.regions));
        connection.set_up(0);
        EXPECT_TRUE(connection.front.set_vring_call(0, connection.call.get()));
        EXPECT_TRUE(connection.front.set_vring_error(0, connection.call.get()));
        const std::size_t running = test::open_fds();
        for (int round = 0; round < 1000; ++round) {
            EXPECT_TRUE(connection.front.set_vring_kick(0, connection.kick.get()));
            EXPECT_TRUE(connection.front.set_vring_call(0, connection.call.get()));
            EXPECT_TRUE(connection.front.set_vring_error(0, connection.call.get()));
        }
        EXPECT_EQ(test::open_fds(), running);
        EXPECT_TRUE(connection.finish());
    }
    EXPECT_TRUE(comes_back_to(before)) << test::open_fds() << " descriptors, " << before << " before";
}

TEST(Backend, memory_tables_that_are_wrong_leave_nothing_behind) {
    Connection connection;
    FrontEnd& front = connection.front;
    connection.share({0, 1});
    ASSERT_TRUE(front.negotiate(virtio::kFeatureVersion1));
    (void)connection.take();
    auto payload = encode(TableHeader{.count = 2, .padding = 0});
    for (const auto& region : connection.regions) {
        const auto part = encode(region.description.guest_address); // four words, in the order of the wire
        const auto bytes = encode(region.description.bytes);
        const auto user = encode(region.description.user_address);
        const auto offset = encode(region.description.mmap_offset);
        for (const auto& word : {part, bytes, user, offset})
            payload.insert(payload.end(), word.begin(), word.end());
    }
    auto huge = payload;
    const auto enormous = encode(1ULL << 60);
    std::ranges::copy(enormous, huge.begin() + sizeof(TableHeader) + 8);

    const std::size_t before = test::open_fds();
    const auto refused = [&](std::span<const std::byte> bytes, std::size_t fd_count) {
        const std::vector<int> fds(fd_count, connection.files[0].get());
        EXPECT_TRUE(front.send_request(Request::set_mem_table, bytes, fds, kFlagNeedReply));
        const auto reply = front.receive();
        EXPECT_TRUE(reply);
        EXPECT_NE(decode<std::uint64_t>(reply->payload), 0U);
        EXPECT_TRUE(comes_back_to(before)) << test::open_fds() << " descriptors, " << before << " before";
    };
    for (const std::size_t count : {0UL, 1UL, 3UL, 8UL, 9UL, 32UL, 33UL, 200UL}) refused(payload, count);
    refused(huge, 2);
    refused(std::span{payload}.first(20), 2);
    EXPECT_THAT(connection.take(), IsEmpty());

    ASSERT_TRUE(front.set_memory(connection.regions));
    EXPECT_THAT(connection.take(), ElementsAre("memory 2"));
}

TEST(Backend, unexpected_descriptors_are_closed) {
    Connection connection;
    FrontEnd& front = connection.front;
    ASSERT_TRUE(front.get_features());
    const std::size_t before = test::open_fds();
    const std::vector<int> fds(3, connection.call.get());
    ASSERT_TRUE(front.send_request(Request::get_features, {}, fds));
    EXPECT_EQ(front.receive()->request(), Request::get_features);
    ASSERT_TRUE(front.send_request(static_cast<Request>(99), {}, fds, kFlagNeedReply));
    EXPECT_NE(decode<std::uint64_t>(front.receive()->payload), 0U);
    EXPECT_TRUE(comes_back_to(before)) << test::open_fds() << " descriptors, " << before << " before";
}

TEST(FrontEnd, says_so_when_the_back_end_refuses) {
    Connection connection;
    ASSERT_TRUE(connection.front.negotiate(virtio::kFeatureVersion1));
    const auto refused = connection.front.set_vring_num(9, 64);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error(), Errno{EREMOTEIO});
    EXPECT_EQ(connection.front.get_config(0, 8).error(), Errno{EREMOTEIO});
}

TEST(FrontEnd, does_not_wait_beyond_its_time) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    const Fd silent{pair[0]};
    FrontEnd front = FrontEnd::adopt(Fd{pair[1]}, 20ms);
    EXPECT_EQ(front.get_features().error(), Errno{ETIMEDOUT});
    const std::vector<std::byte> much(1 << 20);
    EXPECT_EQ(front.send_raw(much).error(), Errno{ETIMEDOUT});
}

TEST(FrontEnd, answer_to_something_else_is_a_protocol_error) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    MessageSocket lying{Fd{pair[0]}};
    FrontEnd front = FrontEnd::adopt(Fd{pair[1]}, 60s);
    const auto soon = [] { return std::chrono::steady_clock::now() + 60s; };
    ASSERT_TRUE(lying.send_until(frame(Request::get_queue_num, kFlagReply, encode(1ULL)), {}, soon()));
    EXPECT_EQ(front.get_features().error(), Errno{EPROTO});
    ASSERT_TRUE(lying.send_until(frame(Request::get_features, kFlagReply, encode(1U)), {}, soon()));
    EXPECT_EQ(front.get_features().error(), Errno{EPROTO});
}

} // namespace
} // namespace viaduct::vhost
