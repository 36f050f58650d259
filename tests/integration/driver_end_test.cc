// SPDX-License-Identifier: Apache-2.0
//
// The driver end on a real daemon: queue map, affinity of completions, background requests, drain, removal.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/affinity.h"
#include "support/served_share.h"
#include "topology/machine.h"

#include <gtest/gtest.h>

#include <csignal>
#include <fcntl.h>
#include <fstream>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;
using topology::CpuSet;

class DriverEnd : public testing::Test {
protected:
    void serve(const std::vector<std::string>& options = {}) { served_.emplace(options); }
    void connect(driver::DeviceOptions options) {
        options.socket = served_->socket();
        auto device = driver::Device::connect(options);
        ASSERT_TRUE(device) << device.error().message;
        device_ = *std::move(device);
        client_.emplace(*device_, driver::FuseClientOptions{.queue = 0});
        ASSERT_TRUE(client_->init());
    }
    // READs of a file, that the daemon was told to hold.
    std::vector<std::shared_ptr<driver::Call>> begin_reads(int count, bool background) {
        std::ofstream{served_->share() + "/file"} << "text";
        const auto entry = client_->lookup(FuseClient::kRoot, "file");
        const auto handle = client_->open(entry->nodeid, O_RDONLY);
        std::vector<std::shared_ptr<driver::Call>> calls;
        for (int number = 0; number < count; ++number) {
            auto options = client_->call_options(FUSE_READ, entry->nodeid)
                               .add(fuse_read_in{.fh = *handle, .offset = 0, .size = 100});
            options.reply_bytes_max = 100;
            options.background = background;
            const auto call = client_->begin(options);
            EXPECT_TRUE(call);
            if (call) calls.push_back(*call);
        }
        return calls;
    }
    pid_t completion_thread(std::size_t queue) { return device_->completion_threads()->thread_id(queue); }

    std::optional<test::ServedShare> served_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
};

TEST_F(DriverEnd, given_cpus_decide_the_queue_before_the_machine_does) {
    serve();
    connect({.request_queues = 2,
             .queue_cpus = {CpuSet{0, 2}, CpuSet{1, 3}},
             .machine = topology::synthetic_machine("PU:4").value()});
    EXPECT_EQ(device_->queue_map().source(), topology::QueueMap::Source::masks);
    for (const int cpu : {0, 1, 2, 3})
        EXPECT_EQ(device_->request_queue_of_cpu(cpu), static_cast<std::uint32_t>(cpu % 2));
    EXPECT_EQ(device_->request_queue_of_cpu(4000), 0U);
    EXPECT_EQ(device_->request_queue_of_cpu(-1), 0U);
}

TEST_F(DriverEnd, near_cpus_share_a_queue_unless_modulo_is_asked_for) {
    serve();
    const auto machine = topology::synthetic_machine("PU:8").value();
    connect({.request_queues = 4, .machine = machine});
    EXPECT_EQ(device_->request_queue_of_cpu(1), 0U);
    EXPECT_EQ(device_->request_queue_of_cpu(7), 3U);
    device_.reset();
    connect({.request_queues = 4, .policy = topology::QueuePolicy::modulo, .machine = machine});
    EXPECT_EQ(device_->request_queue_of_cpu(1), 1U);
    EXPECT_EQ(device_->request_queue_of_cpu(7), 3U);
    device_.reset();
    connect({.request_queues = 4, .machine = topology::Topology{}}); // nothing is known
    EXPECT_EQ(device_->request_queue_of_cpu(7), 0U);
}

TEST_F(DriverEnd, completions_of_a_queue_are_bound_while_it_is_started) {
    const CpuSet all = test::allowed_cpus(0);
    const CpuSet first{*all.first()};
    const CpuSet last{*all.last()};
    serve();
    connect({.request_queues = 2, .queue_cpus = {first, last}, .completion_threads = true});
    EXPECT_EQ(test::allowed_cpus(completion_thread(0)), all); // hiprio
    EXPECT_EQ(test::allowed_cpus(completion_thread(1)), first);
    EXPECT_EQ(test::allowed_cpus(completion_thread(2)), last);
    ASSERT_TRUE(device_->stop_queue(1));
    EXPECT_EQ(test::allowed_cpus(completion_thread(1)), all);
    EXPECT_EQ(test::allowed_cpus(completion_thread(2)), last);
    ASSERT_TRUE(device_->start_queue(1));
    EXPECT_EQ(test::allowed_cpus(completion_thread(1)), first);
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
}

TEST_F(DriverEnd, one_queue_alone_is_not_bound) {
    const CpuSet all = test::allowed_cpus(0);
    serve();
    connect({.request_queues = 1, .queue_cpus = {CpuSet{*all.first()}}, .completion_threads = true});
    EXPECT_EQ(test::allowed_cpus(completion_thread(1)), all);
}

TEST_F(DriverEnd, affinity_can_be_left_off) {
    const CpuSet all = test::allowed_cpus(0);
    serve();
    connect({.request_queues = 2,
             .queue_cpus = {CpuSet{*all.first()}, CpuSet{*all.last()}},
             .completion_threads = true,
             .affinity = false});
    for (std::size_t queue = 0; queue < 3; ++queue)
        EXPECT_EQ(test::allowed_cpus(completion_thread(queue)), all);
}

// Without anybody polling or waiting.
TEST_F(DriverEnd, completion_threads_end_requests_of_every_queue) {
    serve();
    connect({.request_queues = 2, .completion_threads = true});
    for (std::uint32_t queue = 0; queue < 2; ++queue) {
        const FuseClient client = client_->on_queue(queue);
        auto options = client.call_options(FUSE_STATFS, FuseClient::kRoot);
        options.reply_bytes_max = sizeof(fuse_statfs_out);
        auto sender = client;
        const auto call = sender.begin(options);
        ASSERT_TRUE(call);
        while (!(*call)->ended()) std::this_thread::yield();
        EXPECT_TRUE((*call)->reply());
    }
}

TEST_F(DriverEnd, background_requests_wait_their_turn_and_end_with_the_device) {
    serve({"--faults", "read:delay=600000"});
    connect({.max_background = 2});
    const auto calls = begin_reads(5, true);
    EXPECT_EQ(device_->background().active(), 2U);
    EXPECT_EQ(device_->background().waiting(), 3U);
    EXPECT_TRUE(client_->getattr(FuseClient::kRoot)); // is not held back
    EXPECT_TRUE(calls.back()->withdraw());
    EXPECT_EQ(calls.back()->reply().error(), Errno{EINTR});
    served_->daemon().send_signal(SIGKILL);
    for (int number = 0; number < 4; ++number)
        EXPECT_EQ(calls[static_cast<std::size_t>(number)]->wait(driver::after(30s)).error(),
                  Errno{ECONNABORTED});
    EXPECT_EQ(device_->background().active(), 0U);
}

TEST_F(DriverEnd, background_requests_follow_each_other) {
    serve();
    connect({.max_background = 2});
    for (const auto& call : begin_reads(40, true)) {
        while (!call->ended()) device_->request_queue(0).wait(driver::after(1s));
        EXPECT_TRUE(call->reply());
    }
    EXPECT_EQ(device_->background().active(), 0U);
}

TEST_F(DriverEnd, removal_waits_for_what_the_device_has) {
    serve({"--faults", "read:delay=300"});
    connect({});
    const auto calls = begin_reads(3, false);
    EXPECT_TRUE(device_->remove());
    for (const auto& call : calls) {
        ASSERT_TRUE(call->ended());
        EXPECT_TRUE(call->reply());
    }
    EXPECT_EQ(client_->getattr(FuseClient::kRoot).error(), Errno{ENOTCONN});
    EXPECT_FALSE(device_->alive());
}

TEST_F(DriverEnd, removal_ends_parked_requests_and_gives_a_silent_device_only_so_long) {
    serve({"--faults", "read:delay=600000"});
    connect({.queue_size = 4, .indirect = false, .drain_timeout = 200ms});
    const auto calls = begin_reads(4, false);
    ASSERT_GT(device_->request_queue(0).parked(), 0U);
    EXPECT_EQ(device_->drain(), fail(ETIMEDOUT));
    EXPECT_EQ(device_->remove(), fail(ETIMEDOUT));
    EXPECT_EQ(calls.front()->reply().error(), Errno{ECONNABORTED});
    EXPECT_EQ(calls.back()->reply().error(), Errno{ENOTCONN});
    served_->daemon().send_signal(SIGKILL); // would wait for its READs
}

TEST_F(DriverEnd, removal_tells_that_the_device_left_first) {
    serve();
    connect({});
    served_->daemon().send_signal(SIGKILL);
    while (device_->alive()) std::this_thread::yield();
    EXPECT_FALSE(device_->remove());
}

TEST_F(DriverEnd, a_drain_with_nothing_in_flight_is_over_at_once) {
    serve();
    connect({.request_queues = 2});
    EXPECT_TRUE(device_->drain());
}

// INTERRUPT, once however often it is asked for, ends the wait.
TEST_F(DriverEnd, an_interrupt_ends_the_request_that_waits) {
    serve({"--faults", "read:delay=3600000"});
    connect({});
    const auto calls = begin_reads(1, false);
    ASSERT_TRUE(client_->interrupt(*calls.front()));
    ASSERT_TRUE(client_->interrupt(*calls.front()));
    EXPECT_TRUE(device_->hiprio().drain(driver::after(30s)));
    EXPECT_EQ(device_->hiprio().stats().submitted.get(), 1U);
    const auto reply = calls.front()->wait(driver::after(30s));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error(), Errno{EINTR});
}

} // namespace
} // namespace viaduct
