// SPDX-License-Identifier: Apache-2.0
//
// Requests that wait: on one worker, and on several.
#include "session/session.h"

#include "one_worker.h"
#include "support/on_worker.h"

#include <thread>

namespace viaduct::session {
namespace {

using test::FakeRequest;
using test::FuseMessage;
using test::ToyFileSystem;

// Calls wait until they are let go, on the worker they came from.
class HoldingFileSystem : public ToyFileSystem {
public:
    Async<fs::AttrReply> getattr(const fs::Caller& caller, fs::NodeId id,
                                 std::optional<fs::HandleId> handle) override {
        if (sleeping_.load()) return sleep_long();
        if (!holding_.load()) return ToyFileSystem::getattr(caller, id, handle);
        return held_getattr(caller, id);
    }
    Async<fs::Entry> lookup(const fs::Caller& caller, fs::NodeId parent, const fs::Name& name) override {
        if (!holding_.load()) return ToyFileSystem::lookup(caller, parent, name);
        return held_lookup(caller, parent, name);
    }
    Async<std::size_t> read(const fs::Caller& caller, fs::HandleId handle, std::uint64_t offset,
                            Segments into) override {
        if (!holding_.load()) return ToyFileSystem::read(caller, handle, offset, into);
        return held_read(caller, handle, offset, into);
    }

    bool room_to_come() const noexcept override {
        asked_for_room_.fetch_add(1);
        return full_.load();
    }

    void be_full(bool full) { full_.store(full); }
    int asked_for_room() const { return asked_for_room_.load(); }
    void hold() { holding_.store(true); }
    // getattr takes an hour from now on, on the ring of its worker.
    void sleep() { sleeping_.store(true); }
    // On the worker of the calls.
    void let_go() {
        holding_.store(false);
        for (const auto waiter : std::exchange(waiters_, {})) waiter.resume();
    }
    std::size_t held() const { return waiters_.size(); }

private:
    struct Wait {
        std::vector<std::coroutine_handle<>>& waiters;
        bool await_ready() const noexcept { return false; }
        void await_suspend(std::coroutine_handle<> waiter) const { waiters.push_back(waiter); }
        void await_resume() const noexcept {}
    };
    // References are to what the caller keeps until the call has ended.
    rt::Task<Result<fs::AttrReply>> held_getattr(const fs::Caller& caller, fs::NodeId id) {
        co_await Wait{waiters_};
        auto result = ToyFileSystem::getattr(caller, id, std::nullopt);
        co_return result.value();
    }
    rt::Task<Result<fs::Entry>> held_lookup(const fs::Caller& caller, fs::NodeId parent,
                                            const fs::Name& name) {
        co_await Wait{waiters_};
        auto result = ToyFileSystem::lookup(caller, parent, name);
        co_return result.value();
    }
    rt::Task<Result<std::size_t>> held_read(const fs::Caller& caller, fs::HandleId handle,
                                            std::uint64_t offset, Segments into) {
        co_await Wait{waiters_};
        auto result = ToyFileSystem::read(caller, handle, offset, into);
        co_return result.value();
    }

    static rt::Task<Result<fs::AttrReply>> sleep_long() {
        const int slept = co_await rt::Worker::current()->ring().sleep(3'600'000'000'000);
        co_return fail(-slept);
    }

    std::atomic<bool> sleeping_{false};
    std::atomic<bool> holding_{false};
    std::atomic<bool> full_{false};
    mutable std::atomic<int> asked_for_room_{0};
    std::vector<std::coroutine_handle<>> waiters_;
};

FuseMessage getattr(std::uint64_t node = 1, std::uint64_t unique = 77) {
    FuseMessage message{FUSE_GETATTR, node, unique};
    message.with(fuse_getattr_in{});
    return message;
}

class Waiting : public testing::Test {
protected:
    Waiting() {
        file = fs.add_file("a", "0123456789");
        fs.add_file("b");
        on.init();
    }
    HoldingFileSystem fs;
    OneWorker on{fs};
    std::uint64_t file = 0;
};

TEST_F(Waiting, a_request_that_waits_does_not_hold_up_others) {
    fs.hold();
    const auto slow = on.start(getattr(file));
    EXPECT_FALSE(slow->completed());
    EXPECT_EQ(on.handle(FuseMessage{FUSE_STATFS})->error(), 0);
    fs.let_go();
    ASSERT_TRUE(slow->completed());
    EXPECT_EQ(slow->body<fuse_attr_out>().attr.ino, file);
    EXPECT_EQ(on.counters().waited.get(), 1U);
}

TEST_F(Waiting, waiting_requests_keep_what_they_were_called_with) {
    const std::uint64_t fh =
        on.handle(FuseMessage{FUSE_OPEN, file}.with(fuse_open_in{}))->body<fuse_open_out>().fh;
    fs.hold();
    const auto a = on.start(FuseMessage{FUSE_LOOKUP}.with_string("a"));
    const auto b = on.start(FuseMessage{FUSE_LOOKUP}.with_string("b"));
    const auto whole = on.start(FuseMessage{FUSE_READ}.with(fuse_read_in{.fh = fh, .size = 10}), 64, 0, 5);
    const auto part =
        on.start(FuseMessage{FUSE_READ}.with(fuse_read_in{.fh = fh, .offset = 3, .size = 3}), 64, 0, 3);
    EXPECT_EQ(fs.held(), 4U);
    fs.let_go();
    EXPECT_EQ(a->body<fuse_entry_out>().nodeid, file);
    EXPECT_EQ(b->body<fuse_entry_out>().nodeid, file + 1);
    EXPECT_EQ(whole->text(), "0123456789");
    EXPECT_EQ(part->text(), "345");
}

TEST_F(Waiting, destroy_waits_for_what_is_under_way) {
    fs.hold();
    const auto slow = on.start(getattr());
    const auto destroy = on.start(FuseMessage{FUSE_DESTROY}, 16);
    EXPECT_FALSE(destroy->completed());
    EXPECT_EQ(fs.sessions_ended(), 0U);
    EXPECT_EQ(on.handle(getattr())->error(), EIO);
    fs.let_go();
    EXPECT_TRUE(slow->completed());
    ASSERT_TRUE(destroy->completed());
    EXPECT_EQ(destroy->error(), 0);
    EXPECT_EQ(fs.sessions_ended(), 1U);
}

TEST_F(Waiting, init_again_waits_and_then_serves_anew) {
    fs.hold();
    const auto slow = on.start(getattr());
    const auto init = on.start(init_message());
    const auto destroy = on.start(FuseMessage{FUSE_DESTROY}, 16);
    const auto last = on.start(init_message());
    EXPECT_FALSE(init->completed());
    fs.let_go();
    on.settle();
    EXPECT_TRUE(slow->completed());
    ASSERT_TRUE(init->completed());
    ASSERT_TRUE(destroy->completed());
    ASSERT_TRUE(last->completed());
    EXPECT_EQ(fs.sessions_ended(), 2U);
    EXPECT_EQ(on.session().generation(), 3U);
    EXPECT_EQ(on.handle(getattr())->error(), 0);
}

TEST_F(Waiting, interrupt_finds_the_request_and_has_no_reply_of_its_own) {
    fs.hold();
    const auto first = on.start(getattr(1, 100));
    const auto second = on.start(getattr(1, 102));
    const auto third = on.start(getattr(1, 104));
    for (const std::uint64_t unique : {102U, 100U, 4711U}) {
        const auto interrupt =
            on.start(FuseMessage{FUSE_INTERRUPT, 0, 1}.with(fuse_interrupt_in{unique}), 16);
        on.settle();
        ASSERT_TRUE(interrupt->completed());
        EXPECT_EQ(interrupt->reply_bytes(), 0U);
    }
    EXPECT_EQ(on.counters().interrupts.get(), 2U);
    fs.let_go();
    EXPECT_TRUE(first->completed());
    EXPECT_TRUE(second->completed());
    EXPECT_TRUE(third->completed());
}

// Posted to a worker: runs a function there.
template <class Function> void on_worker(rt::Worker& worker, Function function) {
    struct Run final : rt::Message {
        Function& function;
        std::promise<void> done;
        explicit Run(Function& f) : function(f) {}
        void deliver() override {
            function();
            done.set_value();
        }
    };
    Run run{function};
    auto done = run.done.get_future();
    worker.post(run);
    done.wait();
}

class SeveralWorkers : public testing::Test {
protected:
    static constexpr std::size_t kCount = 3;

    SeveralWorkers() {
        for (std::size_t index = 0; index < kCount; ++index) {
            workers.push_back(std::move(*rt::Worker::start({.name = "test" + std::to_string(index)})));
            session.attach_worker(*workers.back());
        }
        EXPECT_EQ(handle_on(2, init_message())->error(), 0);
    }
    ~SeveralWorkers() override {
        test::run_on(*workers[1], session.end());
        // A worker may still be inside post() to another after that one has taken the message: each has left
        // it when it takes ours, and only then may the first be destroyed.
        for (const auto& worker : workers) on_worker(*worker, [] {});
    }

    std::unique_ptr<FakeRequest> start_on(std::size_t worker, const FuseMessage& message) {
        auto request = std::make_unique<FakeRequest>(message, 1024);
        on_worker(*workers[worker], [&] { session.handle(*request); });
        return request;
    }
    std::unique_ptr<FakeRequest> handle_on(std::size_t worker, const FuseMessage& message) {
        auto request = start_on(worker, message);
        request->wait();
        EXPECT_EQ(request->worker(), workers[worker].get());
        return request;
    }

    HoldingFileSystem fs;
    Session session{fs, {}};
    std::vector<std::unique_ptr<rt::Worker>> workers;
};

TEST_F(SeveralWorkers, requests_are_answered_on_the_worker_that_hands_them_in) {
    for (std::size_t worker = 0; worker < kCount; ++worker)
        EXPECT_EQ(handle_on(worker, getattr())->error(), 0);
    EXPECT_EQ(session.requests_of(FUSE_GETATTR), kCount);
    EXPECT_EQ(session.counters_on(*workers[1])->requests[FUSE_GETATTR].get(), 1U);
}

TEST_F(SeveralWorkers, destroy_on_one_worker_waits_for_a_request_on_another) {
    fs.hold();
    const auto slow = start_on(1, getattr());
    const auto destroy = start_on(2, FuseMessage{FUSE_DESTROY});
    // Whatever the workers had to tell each other has been told.
    for (int round = 0; round < 4; ++round)
        for (const auto& worker : workers) on_worker(*worker, [] {});
    EXPECT_FALSE(destroy->completed());
    EXPECT_EQ(handle_on(0, getattr())->error(), EIO);
    on_worker(*workers[1], [&] { fs.let_go(); });
    destroy->wait();
    EXPECT_TRUE(slow->completed());
    EXPECT_EQ(slow->error(), 0);
    EXPECT_EQ(destroy->worker(), workers[2].get());
    EXPECT_EQ(fs.sessions_ended(), 1U);
    EXPECT_EQ(handle_on(0, init_message())->error(), 0);
    EXPECT_EQ(handle_on(2, getattr())->error(), 0);
}

TEST_F(SeveralWorkers, interrupt_reaches_a_request_on_another_worker) {
    fs.hold();
    const auto slow = start_on(2, getattr(1, 500));
    FuseMessage message{FUSE_INTERRUPT, 0, 501};
    message.with(fuse_interrupt_in{500});
    EXPECT_EQ(handle_on(0, message)->reply_bytes(), 0U);
    on_worker(*workers[2], [&] { EXPECT_EQ(session.counters_on(*workers[2])->interrupts.get(), 1U); });
    on_worker(*workers[2], [&] { fs.let_go(); });
    slow->wait();
}

// It may have overtaken the request on its way, from one queue to another.
TEST_F(SeveralWorkers, interrupt_finds_a_request_that_its_worker_takes_only_now) {
    struct Late final : rt::Source {
        Session& session;
        FakeRequest& request;
        bool handed_in = false;
        Late(Session& s, FakeRequest& r) : session(s), request(r) {}
        Visit sweep(const rt::VisitBudget&) override {
            if (std::exchange(handed_in, true)) return Visit::idle;
            session.handle(request);
            return Visit::worked;
        }
        bool arm() override { return !handed_in; }
    };
    fs.sleep();
    FakeRequest request{getattr(1, 500), 1024};
    FakeRequest interrupt{FuseMessage{FUSE_INTERRUPT, 0, 501}.with(fuse_interrupt_in{500}), 16};
    Late late{session, request};
    // INTERRUPT is taken first, in the pass before the queue with the request is swept.
    on_worker(*workers[1], [&] {
        session.handle(interrupt);
        workers[1]->add(late);
    });
    interrupt.wait();
    request.wait();
    EXPECT_EQ(request.error(), EINTR);
    on_worker(*workers[1], [&] { workers[1]->remove(late); });
}

TEST_F(SeveralWorkers, interrupt_ends_a_request_that_sleeps_and_leaves_others_alone) {
    fs.sleep();
    const auto slow = start_on(2, getattr(1, 500));
    const auto other = start_on(2, getattr(1, 502));
    for (const std::uint64_t unique : {500U, 500U, 4711U}) { // again, and unknown
        FuseMessage message{FUSE_INTERRUPT, 0, 501};
        message.with(fuse_interrupt_in{unique});
        EXPECT_EQ(handle_on(0, message)->reply_bytes(), 0U);
    }
    slow->wait();
    EXPECT_EQ(slow->error(), EINTR);
    EXPECT_EQ(slow->worker(), workers[2].get());
    EXPECT_FALSE(other->completed());
    // All that wait there, as when their queue stops.
    on_worker(*workers[2], [&] { session.cancel([&](const auto& raw) { return &raw == other.get(); }); });
    other->wait();
    EXPECT_EQ(other->error(), EINTR);
    on_worker(*workers[2], [&] {
        EXPECT_EQ(session.counters_on(*workers[2])->cancelled.get(), 2U);
        EXPECT_EQ(session.counters_on(*workers[2])->waits_over.get(), 2U);
    });
}

TEST_F(SeveralWorkers, interrupt_ends_the_wait_for_room) {
    fs.be_full(true);
    const auto lookup = start_on(1, FuseMessage{FUSE_LOOKUP, 1, 500}.with_string("nothing"));
    FuseMessage message{FUSE_INTERRUPT, 0, 501};
    message.with(fuse_interrupt_in{500});
    handle_on(0, message);
    lookup->wait();
    EXPECT_EQ(lookup->error(), EINTR);
}

TEST_F(SeveralWorkers, a_storm_of_interrupts_leaves_nothing_waiting) {
    fs.sleep();
    std::vector<std::unique_ptr<FakeRequest>> requests;
    std::vector<std::unique_ptr<FakeRequest>> interrupts;
    for (std::uint64_t round = 0; round < 1000; ++round) {
        const std::uint64_t unique = 1000 + round * 2;
        requests.push_back(start_on(round % kCount, getattr(1, unique)));
        FuseMessage message{FUSE_INTERRUPT, 0, unique | 1};
        message.with(fuse_interrupt_in{unique});
        interrupts.push_back(start_on((round + 1) % kCount, message));
    }
    for (const auto& request : requests) {
        request->wait();
        ASSERT_EQ(request->error(), EINTR);
    }
    for (const auto& interrupt : interrupts) interrupt->wait();
    for (const auto& worker : workers)
        on_worker(*worker, [&] {
            const LaneCounters& counters = *session.counters_on(*worker);
            EXPECT_EQ(counters.waits_over.get(), counters.waited.get());
        });
}

TEST_F(SeveralWorkers, what_gives_out_nodes_waits_until_there_is_room_and_nothing_else_does) {
    fs.be_full(true);
    const auto lookup = start_on(1, FuseMessage{FUSE_LOOKUP}.with_string("nothing"));
    const auto open = start_on(2, FuseMessage{FUSE_OPEN}.with(fuse_open_in{}));
    EXPECT_EQ(handle_on(1, getattr())->error(), 0);
    EXPECT_EQ(handle_on(1, FuseMessage{FUSE_RELEASE}.with(fuse_release_in{}))->error(), EBADF);
    const int asked = fs.asked_for_room();
    while (fs.asked_for_room() < asked + 4) std::this_thread::yield(); // each has looked again
    EXPECT_FALSE(lookup->completed());
    EXPECT_FALSE(open->completed());
    fs.be_full(false);
    lookup->wait();
    open->wait();
    EXPECT_EQ(lookup->error(), ENOENT);
    EXPECT_EQ(open->error(), EISDIR);
    EXPECT_EQ(lookup->worker(), workers[1].get());
}

TEST_F(SeveralWorkers, a_session_ends_while_a_request_waits_for_room) {
    fs.be_full(true);
    const auto lookup = start_on(1, FuseMessage{FUSE_LOOKUP}.with_string("nothing"));
    const auto destroy = start_on(2, FuseMessage{FUSE_DESTROY});
    fs.be_full(false);
    destroy->wait();
    EXPECT_TRUE(lookup->completed());
    EXPECT_EQ(destroy->error(), 0);
}

TEST_F(SeveralWorkers, sessions_begin_and_end_while_all_workers_send_requests) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> clients;
    for (std::size_t worker = 0; worker < kCount; ++worker) {
        clients.emplace_back([&, worker] {
            while (!stop.load()) {
                const int error = handle_on(worker, getattr())->error();
                EXPECT_TRUE(error == 0 || error == EIO);
            }
        });
    }
    for (std::size_t round = 0; round < 200; ++round) {
        EXPECT_EQ(handle_on(round % kCount, FuseMessage{FUSE_DESTROY})->error(), 0);
        EXPECT_EQ(handle_on((round + 1) % kCount, init_message())->error(), 0);
    }
    stop.store(true);
    for (std::thread& client : clients) client.join();
    EXPECT_EQ(fs.sessions_ended(), 200U);
}

TEST_F(SeveralWorkers, several_inits_at_once_each_get_an_answer) {
    for (int round = 0; round < 50; ++round) {
        const auto first = start_on(0, init_message());
        const auto second = start_on(1, init_message());
        const auto third = start_on(2, FuseMessage{FUSE_DESTROY});
        first->wait();
        second->wait();
        third->wait();
    }
    handle_on(0, init_message());
    EXPECT_TRUE(session.running());
}

} // namespace
} // namespace viaduct::session
