// SPDX-License-Identifier: Apache-2.0
#include "driver/completion_threads.h"

#include "support/affinity.h"
#include "unit/driver/scripted_device.h"

#include <gtest/gtest.h>

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;
using topology::CpuSet;

constexpr auto kLong = 1h; // a lost wake-up runs into the time-out of the test run

class Completions : public testing::Test {
protected:
    ScriptedDevice device_{{.event_idx = true, .size = 8}};
    RequestQueue& queue_ = device_.queue();
};

TEST_F(Completions, requests_end_while_nobody_polls) {
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    const CompletionThreads threads{{&queue_}};
    for (std::uint64_t index = 0; index < 300; ++index) {
        TestRequest request{device_.arena(), 2 * index};
        ASSERT_TRUE(queue_.submit(request));
        while (!request.ended()) std::this_thread::yield();
        ASSERT_EQ(request.result(), 16U);
    }
    EXPECT_TRUE(queue_.drain(after(kLong)));
    device_.stop_thread();
}

TEST_F(Completions, waiters_wait_beside_it) {
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    std::atomic<bool> stop{false};
    std::vector<std::thread> waiters;
    for (std::uint64_t waiter = 0; waiter < 3; ++waiter) {
        waiters.emplace_back([&, waiter] {
            for (std::uint64_t count = 0; !stop.load(std::memory_order_relaxed); ++count) {
                TestRequest request{device_.arena(), waiter << 32 | 2 * count};
                ASSERT_TRUE(queue_.submit(request));
                ASSERT_TRUE(queue_.wait_for(request.flag(), after(kLong)));
            }
        });
    }
    for (int round = 0; round < 20; ++round) { // waiters lead, leave it to the thread, and lead again
        const CompletionThreads threads{{&queue_}};
        const std::uint64_t before = queue_.stats().ended.get();
        while (queue_.stats().ended.get() < before + 50) std::this_thread::yield();
    }
    stop.store(true, std::memory_order_relaxed);
    for (std::thread& waiter : waiters) waiter.join();
    EXPECT_TRUE(queue_.drain(after(kLong)));
    device_.stop_thread();
}

TEST_F(Completions, a_queue_may_end_and_start_again_on_a_new_ring) {
    const CompletionThreads threads{{&queue_}};
    for (std::uint64_t round = 0; round < 20; ++round) {
        device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
        TestRequest request{device_.arena(), 2 * round};
        ASSERT_TRUE(queue_.submit(request));
        while (!request.ended()) std::this_thread::yield();
        EXPECT_TRUE(queue_.drain(after(kLong)));
        device_.stop_thread();
        queue_.end(Errno{ECONNABORTED}, false);
        device_.start();
    }
}

TEST_F(Completions, binding_and_clearing_is_what_the_kernel_says) {
    const CpuSet inherited = test::allowed_cpus(0);
    ScriptedDevice other{{.size = 8}};
    CompletionThreads threads{{&queue_, &other.queue()}};
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), inherited);

    threads.bind(0, {*inherited.first()});
    threads.bind(1, {*inherited.last()});
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), CpuSet{*inherited.first()});
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(1)), CpuSet{*inherited.last()});

    threads.clear(0);
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), inherited);
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(1)), CpuSet{*inherited.last()});
    threads.bind(1, {});
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(1)), inherited);
}

TEST_F(Completions, cpus_outside_of_the_inherited_ones_are_left_out) {
    const CpuSet all = test::allowed_cpus(0);
    if (all.count() < 2) GTEST_SKIP() << "needs two CPUs";
    const CpuSet first{*all.first()};
    const CpuSet last{*all.last()};
    // The thread that makes them may use the first CPU only.
    std::thread maker{[&] {
        cpu_set_t mask;
        CPU_ZERO(&mask);
        CPU_SET(*first.first(), &mask);
        ASSERT_EQ(::sched_setaffinity(0, sizeof mask, &mask), 0);
        CompletionThreads threads{{&queue_}};
        threads.bind(0, all);
        EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), first);
        threads.bind(0, last); // none is left: not bound, a line in the log
        EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), first);
        threads.clear(0);
        EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), first);
    }};
    maker.join();
}

TEST_F(Completions, cpus_that_are_not_there_bind_nothing) {
    const CpuSet inherited = test::allowed_cpus(0);
    CompletionThreads threads{{&queue_}};
    threads.bind(0, {topology::kCpuIdMax});
    EXPECT_EQ(test::allowed_cpus(threads.thread_id(0)), inherited);
}

} // namespace
} // namespace viaduct::driver
