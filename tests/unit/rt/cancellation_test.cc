// SPDX-License-Identifier: Apache-2.0
//
// Tasks that are called off, with both kinds of ring.
#include "rt/cancellation.h"

#include "rt/helpers.h"
#include "rt/slots.h"
#include "support/on_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

namespace viaduct::rt {
namespace {

constexpr std::uint64_t kHourNs = 3'600'000'000'000;

class Cancelling : public testing::TestWithParam<Ring::Kind> {
protected:
    Cancelling() : worker(std::move(*Worker::start({.name = "test", .ring = GetParam()}))) {
        EXPECT_EQ(::pipe2(pipe, O_CLOEXEC), 0);
    }
    ~Cancelling() override {
        ::close(pipe[0]);
        ::close(pipe[1]);
    }

    const std::unique_ptr<Worker> worker;
    int pipe[2] = {-1, -1}; // nothing is ever written to it
};

// Asks for the end when everything that is there to be done has been done.
struct Request final : Message {
    Cancellation& cancellation;
    explicit Request(Cancellation& c) : cancellation(c) {}
    void deliver() override { cancellation.request(); }
};

Task<int> sleep_long(Worker& worker) {
    co_return co_await worker.ring().sleep(kHourNs);
}

Task<int> read_pipe(Worker& worker, int fd) {
    char byte = 0;
    const iovec iov{&byte, 1};
    co_return co_await worker.ring().readv(fd, &iov, 1, static_cast<std::uint64_t>(-1));
}

Task<int> poll_pipe(Worker& worker, int fd) {
    co_return co_await worker.ring().poll(fd, POLLIN);
}

// The task in the middle knows nothing of it.
Task<int> through_another(Task<int> inner) {
    co_return co_await std::move(inner);
}

Task<void> request_while_it_waits(Worker& worker, Task<int> task, int times, int& result) {
    Cancellation cancellation;
    Request first{cancellation};
    Request second{cancellation};
    worker.post(first);
    if (times > 1) worker.post(second);
    auto outer = through_another(std::move(task));
    outer.cancelled_by(cancellation);
    result = co_await std::move(outer);
}

TEST_P(Cancelling, sleep_ends) {
    for (const int times : {1, 2}) {
        int result = 0;
        test::run_on(*worker, request_while_it_waits(*worker, sleep_long(*worker), times, result));
        EXPECT_EQ(result, -ECANCELED);
    }
}

TEST_P(Cancelling, poll_ends) {
    int result = 0;
    test::run_on(*worker, request_while_it_waits(*worker, poll_pipe(*worker, pipe[0]), 1, result));
    EXPECT_EQ(result, -ECANCELED);
}

TEST_P(Cancelling, read_that_blocks_ends) {
    for (int round = 0; round < 20; ++round) {
        int result = 0;
        test::run_on(*worker, request_while_it_waits(*worker, read_pipe(*worker, pipe[0]), 1, result));
        EXPECT_TRUE(result == -ECANCELED || result == -EINTR) << result;
    }
}

Task<void> request_before(Worker& worker, Task<int> task, int& result) {
    Cancellation cancellation;
    cancellation.request();
    task.cancelled_by(cancellation);
    result = co_await std::move(task);
    cancellation.reset();
    auto quick = [](Worker& w) -> Task<int> { co_return co_await w.ring().sleep(1); };
    auto next = quick(worker);
    next.cancelled_by(cancellation);
    const int slept = co_await std::move(next);
    EXPECT_EQ(slept, -ETIME);
    cancellation.request(); // after the end
}

TEST_P(Cancelling, what_has_not_begun_does_not_and_the_next_task_does) {
    int result = 0;
    test::run_on(*worker, request_before(*worker, sleep_long(*worker), result));
    EXPECT_EQ(result, -ECANCELED);
}

Task<int> in_vain(Worker& worker) {
    co_return co_await worker.ring().sleep(1'000'000);
}

Task<int> shielded(Worker& worker) {
    auto inner = in_vain(worker);
    inner.never_cancelled();
    co_return co_await std::move(inner);
}

TEST_P(Cancelling, task_that_is_never_cancelled_goes_on) {
    int result = 0;
    test::run_on(*worker, request_while_it_waits(*worker, shielded(*worker), 1, result));
    EXPECT_EQ(result, -ETIME);
}

Task<void> wait_for_slot(Worker& worker, Cancellation& cancellation, Slots& slots, int& result) {
    auto wait = [](Worker& w, Slots& s) -> Task<int> {
        const auto hold = co_await s.acquire();
        co_return co_await w.ring().sleep(1);
    };
    auto task = wait(worker, slots);
    task.cancelled_by(cancellation);
    result = co_await std::move(task);
}

Task<void> cancel_the_second(Worker& worker, int (&results)[2]) {
    Slots slots{1};
    Cancellation first;
    Cancellation second;
    Gate gate;
    {
        const auto hold = co_await slots.acquire();
        gate.spawn(wait_for_slot(worker, first, slots, results[0]));
        gate.spawn(wait_for_slot(worker, second, slots, results[1]));
        second.request();
        second.request();
        co_await worker.yield();
    }
    first.request(); // it has the slot, and does not begin
    co_await gate.empty();
    const auto again = co_await slots.acquire(); // none was lost
}

TEST_P(Cancelling, wait_for_a_slot_ends_and_no_slot_is_lost) {
    int results[2] = {0, 0};
    test::run_on(*worker, cancel_the_second(*worker, results));
    EXPECT_EQ(results[0], -ECANCELED);
    EXPECT_EQ(results[1], -ECANCELED);
}

// Blocks until a signal comes.
int block(int fd, std::atomic<int>& inside) {
    ++inside;
    char byte = 0;
    while (::read(fd, &byte, 1) < 0 && errno == EINTR)
        if (Helpers::cancelled_here()) return -EINTR;
    return 0;
}

Task<void> on_helper(Helpers& helpers, Cancellation& cancellation, int fd, std::atomic<int>& inside,
                     int& result) {
    auto wait = [](Helpers& on, int from, std::atomic<int>& count) -> Task<int> {
        const auto got = co_await on.run_cancellable([from, &count] { return block(from, count); });
        co_return got ? *got : -got.error().value();
    };
    auto task = wait(helpers, fd, inside);
    task.cancelled_by(cancellation);
    result = co_await std::move(task);
}

Task<void> cancel_both(Worker& worker, Helpers& helpers, int fd, int (&results)[2]) {
    std::atomic<int> inside{0};
    Cancellation running;
    Cancellation queued;
    Gate gate;
    gate.spawn(on_helper(helpers, running, fd, inside, results[0]));
    gate.spawn(on_helper(helpers, queued, fd, inside, results[1]));
    while (inside == 0) co_await worker.yield();
    queued.request();
    running.request();
    running.request();
    co_await gate.empty();
    EXPECT_EQ(inside, 1);
}

TEST_P(Cancelling, call_on_a_helper_is_interrupted_and_one_that_waits_for_a_helper_is_not_made) {
    Helpers helpers{1};
    for (int round = 0; round < 20; ++round) {
        int results[2] = {1, 1};
        test::run_on(*worker, cancel_both(*worker, helpers, pipe[0], results));
        ASSERT_EQ(results[0], -EINTR);
        ASSERT_EQ(results[1], -ECANCELED);
    }
}

// No signal is left over for those that nobody cancels.
Task<void> mixed(Worker& worker, Helpers& helpers, int fd, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        std::atomic<int> inside{0};
        Cancellation cancellation;
        int result = 1;
        Gate gate;
        gate.spawn(on_helper(helpers, cancellation, fd, inside, result));
        while (inside == 0) co_await worker.yield();
        cancellation.request();
        const auto poll = [] { return ::poll(nullptr, 0, 1) == 0 ? 0 : errno; };
        const int quiet = co_await helpers.run(poll);
        EXPECT_EQ(quiet, 0);
        co_await gate.empty();
        EXPECT_EQ(result, -EINTR);
    }
}

TEST_P(Cancelling, no_other_call_on_the_helper_is_interrupted) {
    Helpers helpers{1};
    test::run_on(*worker, mixed(*worker, helpers, pipe[0], 30));
}

INSTANTIATE_TEST_SUITE_P(rings, Cancelling, testing::Values(Ring::Kind::uring, Ring::Kind::poll),
                         [](const auto& info) { return info.param == Ring::Kind::uring ? "uring" : "poll"; });

} // namespace
} // namespace viaduct::rt
