// SPDX-License-Identifier: Apache-2.0
#include "driver/request_queue.h"

#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

constexpr virtio::DriverQueueOptions kSplit{.event_idx = true, .size = 4};
constexpr virtio::DriverQueueOptions kPacked{.packed = true, .event_idx = true, .size = 4};

class RequestQueueOf : public testing::TestWithParam<virtio::DriverQueueOptions> {
protected:
    ScriptedDevice device_{GetParam()};
    RequestQueue& queue_ = device_.queue();

    std::unique_ptr<TestRequest> request(std::uint64_t unique, std::size_t out_bytes = 64, int parts = 1) {
        return std::make_unique<TestRequest>(device_.arena(), unique, out_bytes, parts);
    }
};

std::string name_of(const testing::TestParamInfo<virtio::DriverQueueOptions>& info) {
    const auto& options = info.param;
    return std::string{options.packed ? "packed" : "split"} + (options.event_idx ? "_event_idx" : "") +
           (options.indirect ? "_indirect" : "");
}

INSTANTIATE_TEST_SUITE_P(Rings, RequestQueueOf,
                         testing::Values(kSplit, kPacked, virtio::DriverQueueOptions{.size = 4},
                                         virtio::DriverQueueOptions{.indirect = true, .size = 4},
                                         virtio::DriverQueueOptions{.packed = true, .size = 4}),
                         name_of);

TEST_P(RequestQueueOf, a_request_is_answered) {
    const auto one = request(2);
    ASSERT_TRUE(queue_.submit(*one));
    EXPECT_EQ(queue_.in_flight(), 1U);
    EXPECT_EQ(queue_.stats().kicks.get(), 1U);
    const auto chain = device_.pop();
    ASSERT_TRUE(chain);
    EXPECT_EQ(ScriptedDevice::header_of(*chain).unique, 2U);
    EXPECT_EQ(queue_.poll(), 0U);
    device_.answer(*chain, 8);

    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(one->result(), 24U);
    EXPECT_EQ(one->reply_header().unique, 2U);
    EXPECT_EQ(queue_.in_flight(), 0U);
}

TEST_P(RequestQueueOf, what_does_not_fit_is_parked_and_leaves_in_order) {
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < 9; ++index) {
        requests.push_back(request(2 * index));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    EXPECT_GT(queue_.parked(), 0U);
    std::vector<std::uint64_t> seen;
    while (seen.size() < requests.size()) {
        const auto chain = device_.pop();
        ASSERT_TRUE(chain);
        seen.push_back(ScriptedDevice::header_of(*chain).unique);
        device_.answer(*chain);
        queue_.poll();
    }

    for (std::uint64_t index = 0; index < requests.size(); ++index) {
        EXPECT_EQ(seen[index], 2 * index);
        EXPECT_EQ(requests[index]->result(), 16U);
    }
    EXPECT_EQ(queue_.in_flight(), 0U);
}

TEST_P(RequestQueueOf, a_new_request_does_not_overtake_a_parked_one) {
    const auto ring_fills = GetParam().indirect ? 4U : 2U; // two descriptors each, or one
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < ring_fills; ++index) {
        requests.push_back(request(index * 2));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    // Needs more room than one answer makes, where chains take several descriptors.
    const auto big = request(100, 64, 3);
    ASSERT_TRUE(queue_.submit(*big));
    device_.answer(*device_.pop());
    const auto small = request(102, 0); // one descriptor: would fit
    ASSERT_TRUE(queue_.submit(*small));
    std::vector<std::uint64_t> seen;
    while (queue_.in_flight() > 0) {
        queue_.poll();
        while (const auto chain = device_.pop()) {
            seen.push_back(ScriptedDevice::header_of(*chain).unique);
            device_.answer(*chain);
        }
    }

    ASSERT_GE(seen.size(), 2U);
    EXPECT_EQ(seen[seen.size() - 2], 100U);
    EXPECT_EQ(seen.back(), 102U);
}

// The device answers everything between the moment at which the ring was full and the one at which the
// request is parked; nobody else would look at the queue again.
TEST_P(RequestQueueOf, a_full_ring_is_looked_at_again_before_a_request_is_parked) {
    const auto ring_fills = GetParam().indirect ? 4U : 2U;
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < ring_fills; ++index) {
        requests.push_back(request(index * 2));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    while (const auto chain = device_.pop()) device_.answer(*chain);
    const auto last = request(100);
    ASSERT_TRUE(queue_.submit(*last));

    EXPECT_EQ(queue_.parked(), 0U);
    const auto chain = device_.pop();
    ASSERT_TRUE(chain);
    EXPECT_EQ(ScriptedDevice::header_of(*chain).unique, 100U);
    device_.answer(*chain);
    EXPECT_EQ(queue_.poll(), ring_fills + 1);
}

TEST_P(RequestQueueOf, a_batch_is_kicked_once) {
    const auto one = request(2);
    const auto two = request(4);
    Request* const batch[] = {one.get(), two.get()};
    ASSERT_TRUE(queue_.submit(batch));
    EXPECT_EQ(queue_.stats().kicks.get(), 1U);
    while (const auto chain = device_.pop()) device_.answer(*chain);
    EXPECT_EQ(queue_.poll(), 2U);
}

TEST_P(RequestQueueOf, a_request_longer_than_the_ring_is_refused_unless_an_indirect_table_holds_it) {
    const auto alone = request(2, 64, 4);
    const Status submitted = queue_.submit(*alone);
    if (GetParam().indirect) {
        ASSERT_TRUE(submitted);
        const auto chain = device_.pop();
        ASSERT_TRUE(chain);
        EXPECT_EQ(ScriptedDevice::header_of(*chain).unique, 2U);
        device_.answer(*chain);
        EXPECT_EQ(queue_.poll(), 1U);
        EXPECT_EQ(alone->result(), 16U);
        return;
    }
    ASSERT_FALSE(submitted);
    EXPECT_EQ(submitted.error(), Errno{EINVAL});
    EXPECT_EQ(alone->times(), 0);

    const auto in_batch = request(4, 64, 4);
    Request* const batch[] = {in_batch.get()};
    ASSERT_TRUE(queue_.submit(batch));
    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(in_batch->result(), fail(EINVAL));
}

TEST_P(RequestQueueOf, a_lying_reply_is_EIO_and_the_queue_goes_on) {
    const Lie lies[] = {{.length_off_by = 1},
                        {.length_off_by = -1},
                        {.written_off_by = -1},
                        {.written_off_by = 1},
                        {.unique_xor = 1},
                        {.written_off_by = -24},
                        {.length_off_by = -9, .written_off_by = -9}};
    for (const auto& lie : lies) {
        const auto one = request(2);
        ASSERT_TRUE(queue_.submit(*one));
        device_.answer(*device_.pop(), 8, lie);
        EXPECT_EQ(queue_.poll(), 1U);
        EXPECT_EQ(one->result(), fail(EIO));
    }
    EXPECT_EQ(queue_.stats().lies.get(), std::size(lies));
    const auto honest = request(4);
    ASSERT_TRUE(queue_.submit(*honest));
    device_.answer(*device_.pop(), 8);
    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(honest->result(), 24U);
}

TEST_P(RequestQueueOf, an_error_that_is_none_is_EIO) {
    for (const int error : {1, 512, -512, -100'000}) {
        const auto one = request(2);
        ASSERT_TRUE(queue_.submit(*one));
        device_.answer(*device_.pop(), 0, {}, error);
        EXPECT_EQ(queue_.poll(), 1U);
        EXPECT_EQ(one->result(), fail(EIO)) << error;
    }
    for (const int error : {0, -1, -511}) {
        const auto one = request(2);
        ASSERT_TRUE(queue_.submit(*one));
        device_.answer(*device_.pop(), 0, {}, error);
        EXPECT_EQ(queue_.poll(), 1U);
        EXPECT_EQ(one->result(), 16U) << error;
        EXPECT_EQ(one->reply_header().error, error);
    }
}

TEST_P(RequestQueueOf, forgets_are_parked_like_others_and_freed_when_they_come_back) {
    std::vector<std::unique_ptr<TestRequest>> forgets;
    for (std::uint64_t index = 0; index < 12; ++index) {
        forgets.push_back(request(2 * index, 0));
        ASSERT_TRUE(queue_.submit(*forgets.back()));
    }
    EXPECT_EQ(queue_.in_flight(), 12U); // parked ones as well
    EXPECT_EQ(queue_.parked(), 8U);
    std::uint64_t next = 0;
    while (queue_.in_flight() > 0) {
        while (const auto chain = device_.pop()) {
            EXPECT_EQ(ScriptedDevice::header_of(*chain).unique, 2 * next++);
            device_.give_back(*chain, 0);
        }
        queue_.poll();
    }
    EXPECT_EQ(next, 12U);
    for (const auto& forget : forgets) EXPECT_EQ(forget->times(), 1);
}

TEST_P(RequestQueueOf, a_closed_queue_ends_what_is_parked_and_still_takes_what_comes_back) {
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < 6; ++index) {
        requests.push_back(request(2 * index));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    const std::size_t parked = queue_.parked();
    queue_.close(Errno{ENOTCONN});
    EXPECT_EQ(queue_.parked(), 0U);
    EXPECT_EQ(queue_.in_flight(), 6 - parked);
    EXPECT_EQ(requests.back()->result(), fail(ENOTCONN));
    const auto late = request(100);
    EXPECT_EQ(queue_.submit(*late), fail(ENOTCONN));
    while (const auto chain = device_.pop()) device_.answer(*chain);
    EXPECT_EQ(queue_.poll(), 6 - parked);
    EXPECT_EQ(requests.front()->result(), 16U);
    EXPECT_TRUE(queue_.drain(after(0s)));
}

// Where a request is when the device goes, and what it is told: once each, whatever comes later.
TEST_P(RequestQueueOf, errors_are_those_of_a_kernel_at_each_moment) {
    const auto ring_fills = GetParam().indirect ? 4U : 2U;
    std::vector<std::unique_ptr<TestRequest>> on_ring;
    for (std::uint64_t index = 0; index < ring_fills; ++index) {
        on_ring.push_back(request(2 * index));
        ASSERT_TRUE(queue_.submit(*on_ring.back()));
    }
    const auto parked = request(100);
    const auto killed = request(102);
    ASSERT_TRUE(queue_.submit(*parked));
    ASSERT_TRUE(queue_.submit(*killed));
    EXPECT_TRUE(queue_.withdraw(*killed));
    const auto answered = device_.pop();
    device_.answer(*answered); // has come back, nobody has looked yet

    queue_.end(Errno{ECONNABORTED}, true);
    queue_.end(Errno{EIO}, true); // later calls do nothing
    EXPECT_EQ(on_ring.front()->result(), 16U);
    EXPECT_EQ(on_ring.back()->result(), fail(ECONNABORTED));
    EXPECT_EQ(parked->result(), fail(ECONNABORTED));
    EXPECT_EQ(killed->result(), fail(EINTR));
    const auto late = request(104);
    EXPECT_EQ(queue_.submit(*late), fail(ENOTCONN));
    EXPECT_EQ(late->times(), 0);
    for (const auto* one : {on_ring.front().get(), on_ring.back().get(), parked.get(), killed.get()})
        EXPECT_EQ(one->times(), 1);
}

TEST_P(RequestQueueOf, a_header_in_pieces_is_compared_as_one) {
    const auto one = request(6, 64, GetParam().indirect ? 5 : 3);
    ASSERT_TRUE(queue_.submit(*one));
    device_.answer(*device_.pop());
    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(one->result(), 16U);
}

TEST_P(RequestQueueOf, a_forget_has_no_reply_to_check) {
    const auto forget = request(8, 0);
    ASSERT_TRUE(queue_.submit(*forget));
    const auto chain = device_.pop();
    ASSERT_TRUE(chain);
    device_.give_back(*chain, 0);
    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(forget->result(), 0U);
}

TEST_P(RequestQueueOf, claiming_more_than_there_was_room_for_breaks_the_ring) {
    const auto one = request(2);
    const auto two = request(4);
    ASSERT_TRUE(queue_.submit(*one));
    ASSERT_TRUE(queue_.submit(*two));
    const auto chain = device_.pop();
    ASSERT_TRUE(chain);
    device_.give_back(*chain, 65);

    EXPECT_EQ(queue_.poll(), 2U);
    EXPECT_EQ(one->result(), fail(EIO));
    EXPECT_EQ(two->result(), fail(EIO));
    EXPECT_TRUE(queue_.ended_for_good());
    EXPECT_EQ(queue_.submit(*one), fail(ENOTCONN));
}

TEST_P(RequestQueueOf, a_parked_request_can_be_withdrawn) {
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < 6; ++index) {
        requests.push_back(request(2 * index));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    EXPECT_FALSE(queue_.withdraw(*requests.front()));
    EXPECT_TRUE(queue_.withdraw(*requests.back()));
    EXPECT_EQ(requests.back()->result(), fail(EINTR));
    EXPECT_EQ(queue_.in_flight(), 5U);
    std::size_t answered = 0;
    while (queue_.in_flight() > 0) {
        while (const auto chain = device_.pop()) {
            device_.answer(*chain);
            ++answered;
        }
        queue_.poll();
    }
    EXPECT_EQ(answered, 5U);
}

TEST_P(RequestQueueOf, the_end_of_the_device_ends_everything_once) {
    std::vector<std::unique_ptr<TestRequest>> requests;
    for (std::uint64_t index = 0; index < 6; ++index) {
        requests.push_back(request(2 * index));
        ASSERT_TRUE(queue_.submit(*requests.back()));
    }
    device_.answer(*device_.pop()); // had come back before
    queue_.end(Errno{ECONNABORTED}, true);

    EXPECT_EQ(requests[0]->result(), 16U);
    for (std::size_t index = 1; index < requests.size(); ++index) {
        EXPECT_EQ(requests[index]->result(), fail(ECONNABORTED));
        EXPECT_EQ(requests[index]->times(), 1);
    }
    EXPECT_EQ(queue_.in_flight(), 0U);
    EXPECT_EQ(queue_.submit(*requests[0]), fail(ENOTCONN));
    EXPECT_EQ(queue_.wait(after(1h)), 0U);
    EXPECT_TRUE(queue_.drain(after(1h)));
}

TEST_P(RequestQueueOf, a_paused_queue_takes_nothing_and_goes_on_where_it_was) {
    const auto one = request(2);
    const auto two = request(4);
    ASSERT_TRUE(queue_.submit(*one));
    queue_.pause();
    EXPECT_EQ(queue_.submit(*two), fail(ENOTCONN));
    queue_.resume();
    ASSERT_TRUE(queue_.submit(*two));
    while (const auto chain = device_.pop()) device_.answer(*chain);
    EXPECT_EQ(queue_.poll(), 2U);
}

TEST_P(RequestQueueOf, an_ended_queue_starts_again_on_a_new_ring) {
    const auto one = request(2);
    ASSERT_TRUE(queue_.submit(*one));
    queue_.end(Errno{ECONNABORTED}, false);
    EXPECT_EQ(one->result(), fail(ECONNABORTED));
    device_.start();
    ASSERT_TRUE(queue_.submit(*one));
    device_.answer(*device_.pop());
    EXPECT_EQ(queue_.poll(), 1U);
    EXPECT_EQ(one->result(), 16U);
}

TEST_P(RequestQueueOf, a_silent_device_costs_the_waiter_its_deadline) {
    const auto one = request(2);
    ASSERT_TRUE(queue_.submit(*one));
    EXPECT_EQ(queue_.wait(after(5ms)), 0U);
    EXPECT_FALSE(queue_.wait_for(one->flag(), after(5ms)));
    EXPECT_EQ(queue_.drain(after(5ms)), fail(ETIMEDOUT));
    EXPECT_EQ(queue_.in_flight(), 1U);
    queue_.end(Errno{ECONNABORTED}, true);
}

} // namespace
} // namespace viaduct::driver
