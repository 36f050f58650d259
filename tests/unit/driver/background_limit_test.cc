// SPDX-License-Identifier: Apache-2.0
#include "driver/background_limit.h"

#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

class Background : public testing::Test {
protected:
    void submit(std::uint64_t count) {
        for (std::uint64_t index = 0; index < count; ++index) {
            requests_.push_back(std::make_unique<TestRequest>(device_.arena(), 2 * (requests_.size() + 1)));
            ASSERT_TRUE(limit_.submit(queue_, *requests_.back()));
        }
    }
    // What the device has got since it was last asked.
    std::vector<std::uint64_t> seen() {
        std::vector<std::uint64_t> uniques;
        while (auto chain = device_.pop()) {
            uniques.push_back(ScriptedDevice::header_of(*chain).unique);
            chains_.push_back(*chain);
        }
        return uniques;
    }
    void answer_one() {
        device_.answer(chains_.front());
        chains_.erase(chains_.begin());
        EXPECT_EQ(queue_.poll(), 1U);
    }

    BackgroundLimit limit_{3}; // outlives the requests
    ScriptedDevice device_{{.event_idx = true, .size = 64}};
    RequestQueue& queue_ = device_.queue();
    std::vector<std::unique_ptr<TestRequest>> requests_;
    std::vector<virtio::Chain> chains_;
};

TEST_F(Background, linux_has_twelve) {
    EXPECT_EQ(BackgroundLimit::kDefault, 12U);
}

TEST_F(Background, so_many_are_with_the_device_and_the_others_follow_in_order) {
    submit(7);
    EXPECT_EQ(seen(), (std::vector<std::uint64_t>{2, 4, 6}));
    EXPECT_EQ(limit_.active(), 3U);
    EXPECT_EQ(limit_.waiting(), 4U);
    for (std::uint64_t next = 8; next <= 14; next += 2) {
        answer_one();
        EXPECT_EQ(seen(), std::vector<std::uint64_t>{next});
    }
    while (!chains_.empty()) answer_one();
    EXPECT_EQ(limit_.active(), 0U);
    for (const auto& request : requests_) EXPECT_EQ(request->result(), 16U);
}

TEST_F(Background, other_requests_are_not_held_back) {
    submit(5);
    TestRequest other{device_.arena(), 100};
    ASSERT_TRUE(queue_.submit(other));
    EXPECT_EQ(seen(), (std::vector<std::uint64_t>{2, 4, 6, 100}));
    while (!chains_.empty()) {
        answer_one();
        seen();
    }
}

TEST_F(Background, a_waiting_request_can_be_withdrawn_and_one_that_was_sent_cannot) {
    submit(5);
    EXPECT_FALSE(limit_.withdraw(*requests_[0]));
    EXPECT_TRUE(limit_.withdraw(*requests_[3]));
    EXPECT_EQ(requests_[3]->result(), fail(EINTR));
    EXPECT_FALSE(limit_.withdraw(*requests_[3]));
    seen();
    answer_one();
    EXPECT_EQ(seen(), std::vector<std::uint64_t>{10});
    while (!chains_.empty()) answer_one();
    EXPECT_EQ(requests_[3]->times(), 1);
}

TEST_F(Background, a_larger_bound_lets_requests_go_at_once) {
    submit(7);
    EXPECT_EQ(seen().size(), 3U);
    limit_.set_max(5);
    EXPECT_EQ(seen(), (std::vector<std::uint64_t>{8, 10}));
    limit_.set_max(1);
    answer_one(); // more than the bound are active still
    EXPECT_TRUE(seen().empty());
    limit_.set_max(100);
    EXPECT_EQ(seen(), (std::vector<std::uint64_t>{12, 14}));
    while (!chains_.empty()) answer_one();
}

TEST_F(Background, the_end_of_the_device_ends_those_that_wait_as_well) {
    submit(20);
    queue_.end(Errno{ECONNABORTED}, true);
    for (const auto& request : requests_) {
        EXPECT_EQ(request->result(), fail(ECONNABORTED));
        EXPECT_EQ(request->times(), 1);
    }
    EXPECT_EQ(limit_.active(), 0U);
    EXPECT_EQ(limit_.waiting(), 0U);
    TestRequest late{device_.arena(), 100};
    EXPECT_EQ(limit_.submit(queue_, late), fail(ENOTCONN));
    EXPECT_EQ(late.times(), 0);
}

TEST_F(Background, a_closed_queue_refuses_those_that_wait) {
    submit(5);
    EXPECT_EQ(seen().size(), 3U);
    queue_.close(Errno{ENOTCONN});
    answer_one();
    EXPECT_EQ(requests_[0]->result(), 16U);
    EXPECT_EQ(requests_[3]->result(), fail(ENOTCONN));
    EXPECT_EQ(requests_[4]->result(), fail(ENOTCONN));
    while (!chains_.empty()) answer_one();
    EXPECT_TRUE(queue_.drain(after(60s)));
}

TEST_F(Background, threads_share_the_bound_and_nothing_is_lost) {
    std::atomic<std::uint64_t> most{0};
    std::uint64_t held = 0;
    device_.run([&](const virtio::Chain& chain) {
        held = limit_.active();
        if (held > most.load(std::memory_order_relaxed)) most.store(held, std::memory_order_relaxed);
        device_.answer(chain);
    });
    std::vector<std::thread> threads;
    for (std::uint64_t thread = 0; thread < 4; ++thread) {
        threads.emplace_back([&, thread] {
            for (std::uint64_t count = 0; count < 500; ++count) {
                TestRequest one{device_.arena(), 2 * (thread * 10'000 + count + 1)};
                TestRequest two{device_.arena(), 2 * (thread * 10'000 + 5'000 + count + 1)};
                ASSERT_TRUE(limit_.submit(queue_, one));
                ASSERT_TRUE(limit_.submit(queue_, two));
                while (!one.ended() || !two.ended()) queue_.wait(after(1s));
                ASSERT_EQ(one.result(), 16U);
                ASSERT_EQ(two.result(), 16U);
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_TRUE(queue_.drain(after(60s)));
    device_.stop_thread();
    EXPECT_LE(most.load(), 3U);
    EXPECT_EQ(limit_.active(), 0U);
    EXPECT_EQ(queue_.stats().ended.get(), 4000U);
}

} // namespace
} // namespace viaduct::driver
