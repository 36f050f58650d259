// SPDX-License-Identifier: Apache-2.0
#include "rt/worker.h"

#include "rt/helpers.h"
#include "rt/slots.h"
#include "support/on_worker.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace viaduct::rt {
namespace {

class RingKinds : public testing::TestWithParam<Ring::Kind> {
protected:
    std::unique_ptr<Worker> make(const char* name = "test") {
        auto worker = Worker::start({.name = name, .ring = GetParam()});
        EXPECT_TRUE(worker) << worker.error().message;
        return std::move(*worker);
    }
};

Task<void> note_worker(Worker*& seen) {
    seen = Worker::current();
    co_return;
}

TEST_P(RingKinds, task_runs_on_the_worker_it_is_given_to) {
    const auto worker = make();
    Worker* seen = nullptr;
    test::run_on(*worker, note_worker(seen));
    EXPECT_EQ(seen, worker.get());
}

Task<void> there_and_back(Worker& other, Worker*& there, Worker*& back) {
    auto look = [&there] { there = Worker::current(); };
    co_await other.call(look);
    back = Worker::current();
}

TEST_P(RingKinds, call_runs_on_the_other_worker_and_comes_back) {
    const auto one = make("one");
    const auto two = make("two");
    Worker* there = nullptr;
    Worker* back = nullptr;
    test::run_on(*one, there_and_back(*two, there, back));
    EXPECT_EQ(there, two.get());
    EXPECT_EQ(back, one.get());
}

Task<void> hop_many(Worker& one, Worker& two, int rounds, int& done) {
    for (; done < rounds; ++done) {
        co_await two.enter();
        co_await one.enter();
    }
}

TEST_P(RingKinds, messages_are_never_lost_between_two_sleeping_workers) {
    const auto one = make("one");
    const auto two = make("two");
    int done = 0;
    test::run_on(*one, hop_many(*one, *two, 5'000, done));
    EXPECT_EQ(done, 5'000);
}

Task<void> write_then_read(Worker& worker, int fd, std::string& back) {
    char text[] = "over the ring";
    const iovec out{text, sizeof text - 1};
    const int written = co_await worker.ring().writev(fd, &out, 1, 3);
    EXPECT_EQ(written, 13);
    char buffer[32] = {};
    const iovec in{buffer, sizeof buffer};
    const int read = co_await worker.ring().readv(fd, &in, 1, 3);
    EXPECT_EQ(read, 13);
    back.assign(buffer, 13);
    const int synced = co_await worker.ring().fsync(fd, true);
    EXPECT_EQ(synced, 0);
    const int bad = co_await worker.ring().readv(-1, &in, 1, 0);
    EXPECT_EQ(bad, -EBADF);
}

TEST_P(RingKinds, file_operations_give_the_result_of_the_system_call) {
    const auto worker = make();
    const int fd = ::memfd_create("ring", MFD_CLOEXEC);
    std::string back;
    test::run_on(*worker, write_then_read(*worker, fd, back));
    ::close(fd);
    EXPECT_EQ(back, "over the ring");
}

Task<void> cancelled_poll(Worker& worker, int fd, int& result) {
    Operation operation = worker.ring().poll(fd, POLLIN);
    struct Cancel final : Message {
        Worker& worker;
        Operation& operation;
        Cancel(Worker& w, Operation& o) : worker(w), operation(o) {}
        void deliver() override { worker.ring().cancel(operation); }
    };
    Cancel cancel{worker, operation};
    worker.post(cancel);
    result = co_await operation;
}

TEST_P(RingKinds, cancelled_operation_completes_once_with_ecanceled) {
    const auto worker = make();
    const int fd = ::eventfd(0, EFD_CLOEXEC);
    int result = 0;
    test::run_on(*worker, cancelled_poll(*worker, fd, result));
    ::close(fd);
    EXPECT_EQ(result, -ECANCELED);
}

Task<void> sleep_in_order(Worker& worker, std::uint64_t ns, int name, std::vector<int>& order, int& result) {
    result = co_await worker.ring().sleep(ns);
    order.push_back(name);
}

Task<void> two_sleeps(Worker& worker, std::vector<int>& order, int& result) {
    Gate gate;
    gate.spawn(sleep_in_order(worker, 400'000'000, 2, order, result));
    gate.spawn(sleep_in_order(worker, 1'000'000, 1, order, result));
    co_await gate.empty();
}

TEST_P(RingKinds, sleeps_end_in_the_order_of_their_deadlines) {
    const auto worker = make();
    std::vector<int> order;
    int result = 0;
    test::run_on(*worker, two_sleeps(*worker, order, result));
    EXPECT_EQ(order, (std::vector{1, 2}));
    EXPECT_EQ(result, -ETIME);
}

struct CountingWatcher final : Watcher {
    std::atomic<int> count{0};
    std::promise<void> reached;
    int wanted;
    explicit CountingWatcher(int w) : wanted(w) {}
    void on_ready() override {
        if (++count == wanted) reached.set_value();
    }
};

Task<void> begin_watch(Worker& worker, int fd, Watcher& watcher) {
    EXPECT_TRUE(worker.ring().watch(fd, watcher));
    co_return;
}
Task<void> end_watch(Worker& worker, int fd, Watcher& watcher) {
    worker.ring().unwatch(fd, watcher);
    co_return;
}

TEST_P(RingKinds, watched_eventfd_wakes_for_every_write_without_being_read) {
    const auto worker = make();
    const int fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    for (int round = 0; round < 50; ++round) {
        CountingWatcher watcher{1};
        test::run_on(*worker, begin_watch(*worker, fd, watcher));
        auto reached = watcher.reached.get_future();
        ::eventfd_write(fd, 1);
        EXPECT_EQ(reached.wait_for(std::chrono::seconds{60}), std::future_status::ready);
        test::run_on(*worker, end_watch(*worker, fd, watcher));
    }
    CountingWatcher gone{1};
    test::run_on(*worker, begin_watch(*worker, fd, gone));
    test::run_on(*worker, end_watch(*worker, fd, gone));
    const int seen = gone.count;
    ::eventfd_write(fd, 1);
    test::run_on(*worker, end_watch(*worker, fd, gone));
    EXPECT_EQ(gone.count, seen);
    ::close(fd);
}

Task<void> ask_helper(Helpers& helpers, Worker& worker, int& sum) {
    for (int index = 1; index <= 100; ++index) {
        const int value = co_await helpers.run([index] { return index; });
        EXPECT_TRUE(worker.is_current());
        sum += value;
    }
}

TEST_P(RingKinds, helper_result_comes_back_to_the_worker_that_asked) {
    const auto worker = make();
    Helpers helpers{2};
    int sum = 0;
    test::run_on(*worker, ask_helper(helpers, *worker, sum));
    EXPECT_EQ(sum, 5050);
}

Task<void> inside(Helpers& helpers, std::atomic<int>& now, std::atomic<int>& most) {
    co_await helpers.run([&now, &most] {
        const int mine = ++now;
        int seen = most;
        while (seen < mine && !most.compare_exchange_weak(seen, mine)) {
        }
        std::this_thread::yield();
        --now;
        return 0;
    });
}

Task<void> many_inside(Helpers& helpers, std::atomic<int>& now, std::atomic<int>& most) {
    Gate gate;
    for (int index = 0; index < 200; ++index) gate.spawn(inside(helpers, now, most));
    co_await gate.empty();
}

TEST_P(RingKinds, helpers_never_exceed_their_bound) {
    const auto worker = make();
    Helpers helpers{3};
    std::atomic<int> now{0};
    std::atomic<int> most{0};
    test::run_on(*worker, many_inside(helpers, now, most));
    EXPECT_LE(most, 3);
    EXPECT_GE(most, 1);
}

Task<void> hold_slot(Worker& worker, Slots& slots, int& now, int& most) {
    const auto hold = co_await slots.acquire();
    most = std::max(most, ++now);
    co_await worker.yield();
    --now;
}

Task<void> hold_many(Worker& worker, Slots& slots, int& now, int& most) {
    Gate gate;
    for (int index = 0; index < 50; ++index) gate.spawn(hold_slot(worker, slots, now, most));
    co_await gate.empty();
}

TEST_P(RingKinds, slots_bound_what_is_outstanding_and_all_get_their_turn) {
    const auto worker = make();
    Slots slots{4};
    int now = 0;
    int most = 0;
    test::run_on(*worker, hold_many(*worker, slots, now, most));
    EXPECT_EQ(most, 4);
    EXPECT_EQ(now, 0);
}

// Counts its sweeps; has work for as many visits as it is told.
struct TestSource final : Source {
    explicit TestSource(int visits) : work(visits) {}
    int work;
    std::promise<void> done;
    Visit sweep(const VisitBudget&) override {
        if (work == 0) return Visit::idle;
        if (--work == 0) done.set_value();
        return Visit::worked;
    }
    bool arm() override { return work > 0; }
};

Task<void> add_source(Worker& worker, Source& source) {
    worker.add(source);
    co_return;
}
Task<void> remove_source(Worker& worker, Source& source) {
    worker.remove(source);
    co_return;
}

struct NotedSource final : Source {
    NotedSource(std::string& all, char letter) : notes(all), name(letter) {}
    std::string& notes;
    const char name;
    Visit sweep(const VisitBudget&) override {
        notes += name;
        return Visit::idle;
    }
    bool arm() override { return false; }
    void approach() noexcept override { notes += static_cast<char>(name - 'A' + 'a'); }
};

TEST_P(RingKinds, source_is_told_that_its_turn_is_next_before_the_one_ahead_of_it_is_swept) {
    std::string notes;
    NotedSource sources[] = {{notes, 'A'}, {notes, 'B'}, {notes, 'C'}};
    const auto worker = make();
    for (NotedSource& source : sources) test::run_on(*worker, add_source(*worker, source));
    for (NotedSource& source : sources) test::run_on(*worker, remove_source(*worker, source));
    EXPECT_NE(notes.find("bAcBC"), std::string::npos) << notes;
    EXPECT_EQ(notes.find('a'), std::string::npos) << notes;
}

TEST_P(RingKinds, sources_are_swept_until_none_has_work) {
    const auto worker = make();
    TestSource one{5};
    TestSource two{1};
    test::run_on(*worker, add_source(*worker, one));
    test::run_on(*worker, add_source(*worker, two));
    for (TestSource* const source : {&one, &two})
        EXPECT_EQ(source->done.get_future().wait_for(std::chrono::seconds{60}), std::future_status::ready);
    test::run_on(*worker, remove_source(*worker, one));
    test::run_on(*worker, remove_source(*worker, two));
    EXPECT_EQ(one.work, 0);
    EXPECT_EQ(two.work, 0);
}

INSTANTIATE_TEST_SUITE_P(rings, RingKinds, testing::Values(Ring::Kind::uring, Ring::Kind::poll),
                         [](const auto& info) { return info.param == Ring::Kind::uring ? "uring" : "poll"; });

void count_free(void* context, std::uint64_t) {
    ++*static_cast<std::atomic<int>*>(context);
}

TEST(Epoch, nothing_is_freed_before_every_member_has_been_quiescent) {
    std::atomic<int> freed{0};
    const auto mine = EpochMember::join();
    std::promise<void> joined;
    std::promise<void> go;
    std::thread other{[&] {
        const auto member = EpochMember::join();
        joined.set_value();
        go.get_future().wait();
        member->quiescent();
        member->offline();
    }};
    joined.get_future().wait();
    mine->retire(count_free, &freed, 0);
    mine->quiescent();
    EXPECT_EQ(mine->collect(), 1U);
    EXPECT_EQ(freed, 0);
    go.set_value();
    other.join();
    EXPECT_EQ(mine->collect(), 0U);
    EXPECT_EQ(freed, 1);
}

TEST(Epoch, what_a_leaving_member_retired_is_freed_by_another) {
    std::atomic<int> freed{0};
    std::promise<void> joined;
    std::promise<void> go;
    std::thread holder{[&] {
        const auto member = EpochMember::join();
        joined.set_value();
        go.get_future().wait();
    }};
    joined.get_future().wait();
    std::thread{[&] { EpochMember::join()->retire(count_free, &freed, 0); }}.join();
    EXPECT_EQ(freed, 0);
    go.set_value();
    holder.join();
    const auto mine = EpochMember::join();
    mine->retire(count_free, &freed, 0);
    mine->quiescent();
    mine->collect();
    mine->collect();
    EXPECT_EQ(freed, 2);
}

} // namespace
} // namespace viaduct::rt
