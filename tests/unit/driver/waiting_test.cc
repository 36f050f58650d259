// SPDX-License-Identifier: Apache-2.0
//
// Requests, waiters and a device in threads of their own.
#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

#include <deque>

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

// A wait looks once more at its deadline, which would hide a lost wake-up: so that it never comes, and the
// test runs into the time-out of the test run.
constexpr auto kLong = 1h;

class Waiting : public testing::TestWithParam<virtio::DriverQueueOptions> {
protected:
    ScriptedDevice device_{GetParam()};
    RequestQueue& queue_ = device_.queue();
};

std::string name_of(const testing::TestParamInfo<virtio::DriverQueueOptions>& info) {
    const auto& options = info.param;
    return std::string{options.packed ? "packed" : "split"} + (options.event_idx ? "_event_idx" : "");
}

INSTANTIATE_TEST_SUITE_P(Rings, Waiting,
                         testing::Values(virtio::DriverQueueOptions{.event_idx = true, .size = 4},
                                         virtio::DriverQueueOptions{.size = 4},
                                         virtio::DriverQueueOptions{
                                             .packed = true, .event_idx = true, .size = 6},
                                         virtio::DriverQueueOptions{.packed = true, .size = 6}),
                         name_of);

TEST_P(Waiting, several_threads_wait_each_for_its_own_request) {
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint64_t count = 0; count < 500; ++count) {
                TestRequest request{device_.arena(), 2 * (thread * 1000 + count)};
                ASSERT_TRUE(queue_.submit(request));
                ASSERT_TRUE(queue_.wait_for(request.flag(), after(kLong)));
                ASSERT_EQ(request.result(), 16U);
                ASSERT_EQ(request.times(), 1);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(queue_.drain(after(kLong)));
    EXPECT_EQ(queue_.stats().ended.get(), 2000U);
}

TEST_P(Waiting, a_waiter_is_woken_when_another_thread_ends_its_request) {
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    std::atomic<bool> stop{false};
    std::thread poller{[&] {
        while (!stop.load(std::memory_order_relaxed)) queue_.poll();
    }};
    for (std::uint64_t count = 0; count < 2000; ++count) {
        TestRequest request{device_.arena(), 2 * count};
        ASSERT_TRUE(queue_.submit(request));
        ASSERT_TRUE(queue_.wait_for(request.flag(), after(kLong)));
    }
    stop.store(true, std::memory_order_relaxed);
    poller.join();
    EXPECT_TRUE(queue_.drain(after(kLong)));
}

TEST_P(Waiting, replies_may_come_late_and_in_any_order) {
    std::deque<virtio::Chain> held;
    device_.run([&](const virtio::Chain& chain) {
        held.push_back(chain);
        if (held.size() < 2) return;
        device_.answer(held.back());
        device_.answer(held.front());
        held.clear();
    });
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < 100; ++index) {
        requests.push_back(std::make_unique<TestRequest>(device_.arena(), 2 * index));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    EXPECT_TRUE(queue_.drain(after(kLong)));
    device_.stop_thread();
    for (const auto& request : requests) EXPECT_EQ(request->result(), 16U);
}

TEST_P(Waiting, a_device_that_dies_frees_every_waiter) {
    std::atomic<int> taken{0};
    device_.run([&](const virtio::Chain&) { taken.fetch_add(1); });
    std::vector<std::thread> threads;
    for (std::uint64_t index = 0; index < 4; ++index) {
        threads.emplace_back([&, index] {
            TestRequest request{device_.arena(), 2 * index};
            const Status submitted = queue_.submit(request);
            if (!submitted) {
                EXPECT_EQ(submitted.error(), Errno{ENOTCONN});
                return;
            }
            queue_.wait_for(request.flag(), after(kLong));
            EXPECT_TRUE(request.ended());
            EXPECT_EQ(request.result(), fail(ECONNABORTED));
        });
    }
    while (taken.load() == 0) std::this_thread::yield();
    queue_.end(Errno{ECONNABORTED}, true);
    for (std::thread& thread : threads) thread.join();
    device_.stop_thread();
    EXPECT_EQ(queue_.in_flight(), 0U);
}

// Four submitters, a ring for two requests: nearly every one is parked.  Requests of one submitter are
// answered in the order in which it sent them, each once.
TEST_P(Waiting, parking_loses_doubles_and_reorders_nothing) {
    constexpr std::uint64_t kThreads = 4;
    constexpr std::uint64_t kEach = 5000;
    constexpr std::uint64_t kDepth = 8;
    std::vector<std::uint64_t> next(kThreads, 0); // the device's
    device_.run([&](const virtio::Chain& chain) {
        const std::uint64_t unique = ScriptedDevice::header_of(chain).unique;
        EXPECT_EQ(unique & 0xffff'ffff, next[unique >> 32]++);
        device_.answer(chain);
    });
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            std::deque<std::unique_ptr<TestRequest>> window;
            for (std::uint64_t count = 0; count < kEach; ++count) {
                window.push_back(std::make_unique<TestRequest>(device_.arena(), thread << 32 | count));
                ASSERT_TRUE(queue_.submit(*window.back()));
                if (window.size() < kDepth) continue;
                ASSERT_TRUE(queue_.wait_for(window.front()->flag(), after(kLong)));
                ASSERT_EQ(window.front()->times(), 1);
                window.pop_front();
            }
            for (const auto& request : window) ASSERT_TRUE(queue_.wait_for(request->flag(), after(kLong)));
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(queue_.drain(after(kLong)));
    EXPECT_EQ(queue_.stats().ended.get(), kThreads * kEach);
    EXPECT_GT(queue_.stats().parked.get(), 0U);
    device_.stop_thread();
    for (const std::uint64_t count : next) EXPECT_EQ(count, kEach);
}

} // namespace
} // namespace viaduct::driver
