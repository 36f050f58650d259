// SPDX-License-Identifier: Apache-2.0
#include "driver/staged_dispatch.h"

#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

#include <deque>

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 1h; // a lost wake-up runs into the time-out of the test run

class Staged : public testing::Test {
protected:
    ScriptedDevice device_{{.event_idx = true, .size = 4}};
    RequestQueue& queue_ = device_.queue();
};

// The waiter may come before the request is on the queue, which then has nothing in flight.
void wait(RequestQueue& queue, TestRequest& request) {
    EXPECT_TRUE(queue.wait_for(request.flag(), after(kLong)));
}

TEST_F(Staged, order_is_kept_through_list_and_parking) {
    std::vector<std::uint64_t> seen;
    device_.run([&](const virtio::Chain& chain) {
        seen.push_back(ScriptedDevice::header_of(chain).unique);
        device_.answer(chain);
    });
    std::vector<std::unique_ptr<TestRequest>> requests;
    {
        StagedDispatch staged{queue_};
        for (std::uint64_t index = 0; index < 500; ++index) {
            requests.push_back(std::make_unique<TestRequest>(device_.arena(), 2 * index));
            ASSERT_TRUE(staged.submit(*requests.back()));
        }
        for (const auto& request : requests) wait(queue_, *request);
    }
    device_.stop_thread();
    ASSERT_EQ(seen.size(), requests.size());
    for (std::uint64_t index = 0; index < seen.size(); ++index) EXPECT_EQ(seen[index], 2 * index);
    EXPECT_GT(queue_.stats().parked.get(), 0U);
}

TEST_F(Staged, a_waiter_sleeps_while_its_request_is_on_the_list) {
    const std::atomic<bool> never{false};
    queue_.announce(1);
    const Deadline deadline = after(20ms);
    EXPECT_FALSE(queue_.wait_for(never, deadline));
    EXPECT_GE(std::chrono::steady_clock::now(), deadline);
    queue_.take_back(1);
    EXPECT_FALSE(queue_.wait_for(never, after(kLong))) << "nothing is to come";
}

TEST_F(Staged, what_is_on_the_list_when_it_goes_still_goes_on_the_queue) {
    for (int round = 0; round < 50; ++round) {
        std::vector<std::unique_ptr<TestRequest>> requests;
        {
            StagedDispatch staged{queue_};
            for (std::uint64_t index = 0; index < 6; ++index) {
                requests.push_back(std::make_unique<TestRequest>(device_.arena(), 2 * index));
                ASSERT_TRUE(staged.submit(*requests.back()));
            }
        }
        ASSERT_EQ(queue_.in_flight(), 6U);
        while (queue_.in_flight() > 0) {
            while (const auto chain = device_.pop()) device_.answer(*chain);
            queue_.poll();
        }
        for (const auto& request : requests) ASSERT_EQ(request->result(), 16U);
    }
}

TEST_F(Staged, a_queue_that_does_not_run_takes_nothing) {
    StagedDispatch staged{queue_};
    queue_.pause();
    TestRequest request{device_.arena(), 2};
    EXPECT_EQ(staged.submit(request), fail(ENOTCONN));
    EXPECT_EQ(request.times(), 0);
    queue_.resume();
    EXPECT_TRUE(staged.submit(request));
    while (queue_.in_flight() == 0) std::this_thread::yield();
    device_.answer(*device_.pop());
    wait(queue_, request);
}

// Some are answered, some are on the ring, parked or on the list when the device dies; later ones are
// refused.
TEST_F(Staged, a_death_ends_each_request_once_wherever_it_is) {
    for (int round = 0; round < 20; ++round) {
        ScriptedDevice device{{.event_idx = true, .size = 4}};
        RequestQueue& queue = device.queue();
        StagedDispatch staged{queue};
        std::deque<TestRequest> requests;
        std::atomic<int> submitted{0};
        std::thread submitter{[&] {
            for (std::uint64_t index = 0;; ++index) {
                TestRequest& request = requests.emplace_back(device.arena(), 2 * index);
                const Status status = staged.submit(request);
                if (!status) {
                    EXPECT_EQ(status.error(), Errno{ENOTCONN});
                    EXPECT_EQ(request.times(), 0);
                    requests.pop_back();
                    return;
                }
                submitted.fetch_add(1);
                // As many as there is memory for, and then the last one after the end.
                while (index >= 5000 && queue.running()) std::this_thread::yield();
            }
        }};
        while (submitted.load() < 20 * round) std::this_thread::yield();
        queue.end(Errno{ECONNABORTED}, true);
        submitter.join();
        for (TestRequest& request : requests) {
            while (!request.ended()) std::this_thread::yield();
            EXPECT_EQ(request.result(), fail(ECONNABORTED));
            EXPECT_EQ(request.times(), 1);
        }
        EXPECT_EQ(queue.in_flight(), 0U);
    }
}

TEST_F(Staged, a_request_is_withdrawn_from_the_list_or_is_the_queues) {
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    StagedDispatch staged{queue_};
    for (std::uint64_t index = 0; index < 300; ++index) {
        TestRequest request{device_.arena(), 2 * index};
        ASSERT_TRUE(staged.submit(request));
        const bool withdrawn = staged.withdraw(request);
        wait(queue_, request);
        EXPECT_EQ(request.result(),
                  withdrawn ? Result<std::uint32_t>{fail(EINTR)} : Result<std::uint32_t>{16U});
    }
    EXPECT_TRUE(queue_.drain(after(kLong)));
    device_.stop_thread();
}

} // namespace
} // namespace viaduct::driver
