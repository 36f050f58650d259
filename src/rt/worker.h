// SPDX-License-Identifier: Apache-2.0
//
// Worker: a thread that owns queues, waits in one place (its ring) and runs coroutines.
//
// While it is awake it sweeps all of its sources; before it waits it arms them, so that they kick.  Other
// threads reach it by messages only.
#pragma once

#include "base/result.h"
#include "base/sync.h"
#include "rt/epoch.h"
#include "rt/gate.h"
#include "rt/ring.h"
#include "rt/task.h"

#include <atomic>
#include <coroutine>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

namespace viaduct::rt {

// What one source may take of a worker before it is the next one's turn.
struct VisitBudget {
    std::uint32_t requests = 256;
    std::uint64_t bytes = 8ULL << 20;
};

// Something that a worker sweeps while it is awake: a virtqueue.
class Source {
public:
    enum class Visit {
        idle,   // nothing was there
        worked, // served something
    };
    // Serves what is there, within `budget`.
    virtual Visit sweep(const VisitBudget& budget) = 0;
    // The worker is about to wait: see to it that it is woken for new work.  true: there is work already.
    virtual bool arm() = 0;
    // Its turn comes next: what sweep() touches first may come into the cache meanwhile.
    virtual void approach() noexcept {}

protected:
    ~Source() = default;
};

// Delivered on the worker it is posted to.  Belongs to the poster until deliver() begins.
class Message {
public:
    virtual void deliver() = 0;

protected:
    ~Message() = default;

private:
    friend class Worker;
    Message* next_ = nullptr;
};

struct WorkerOptions {
    std::string name = "worker"; // thread name, at most 15 bytes
    std::optional<Ring::Kind> ring;
    std::vector<int> cpus; // empty: the inherited mask
    VisitBudget budget;
    std::uint32_t poll_us = 0; // how long to look for work before waiting; microseconds
};

// Counters that others may read at any time.
struct WorkerStats {
    sync::Counter passes;
    sync::Counter waits;
    sync::Counter messages;
    sync::Counter completions;
};

class Worker {
public:
    // Makes a worker and its thread.
    static Outcome<std::unique_ptr<Worker>> start(WorkerOptions options);
    // Makes a worker for the calling thread, which then calls run().
    static Outcome<std::unique_ptr<Worker>> make(WorkerOptions options);
    // A started worker is stopped and joined.
    ~Worker();

    // The worker of the calling thread, or nullptr.
    static Worker* current() noexcept;
    bool is_current() const noexcept { return current() == this; }

    // Serves until stop().  On the thread that made it.
    void run();
    // Any thread: run() returns after what was posted before.
    void stop();
    // Waits for a started worker to end.  Workers that post to each other are all joined before any is
    // destroyed.
    void join();

    // Any thread.
    void post(Message& message);

    // This worker's thread only.
    Ring& ring() noexcept { return *ring_; }
    void add(Source& source);
    void remove(Source& source); // also from within its sweep()
    Gate& gate() noexcept { return gate_; }

    // co_await worker.enter(): goes on, on that worker.  The only way a coroutine changes its thread.
    auto enter() noexcept {
        struct Hop final : Message {
            Worker& worker;
            std::coroutine_handle<> waiter;
            explicit Hop(Worker& w) noexcept : worker(w) {}
            void deliver() override { waiter.resume(); }
            bool await_ready() const noexcept { return worker.is_current(); }
            void await_suspend(std::coroutine_handle<> handle) {
                waiter = handle;
                worker.post(*this);
            }
            void await_resume() const noexcept {}
        };
        return Hop{*this};
    }
    // Lets everything else that is ready have its turn.  This worker's coroutines only.
    auto yield() noexcept {
        struct Turn final : Message {
            Worker& worker;
            std::coroutine_handle<> waiter;
            explicit Turn(Worker& w) noexcept : worker(w) {}
            void deliver() override { waiter.resume(); }
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) {
                waiter = handle;
                worker.post(*this);
            }
            void await_resume() const noexcept {}
        };
        return Turn{*this};
    }

    // Runs an ordinary function on this worker and comes back to the caller's.  `function` outlives the call.
    template <class Function> Task<std::invoke_result_t<Function&>> call(Function& function) {
        Worker* const origin = current();
        ASSERT(origin != nullptr);
        co_await enter();
        if constexpr (std::is_void_v<std::invoke_result_t<Function&>>) {
            function();
            co_await origin->enter();
        } else {
            auto result = function();
            co_await origin->enter();
            co_return result;
        }
    }
    // Runs a task on this worker and comes back to the caller's.
    template <class T> Task<T> call(Task<T> task) {
        Worker* const origin = current();
        ASSERT(origin != nullptr);
        co_await enter();
        if constexpr (std::is_void_v<T>) {
            co_await std::move(task);
            co_await origin->enter();
        } else {
            T result = co_await std::move(task);
            co_await origin->enter();
            co_return result;
        }
    }

    // Voluntary context switches of this thread when it last woke up: what rose since then was a call that
    // slept.  This worker's thread only.
    std::uint64_t switches_at_wakeup() const noexcept { return switches_at_wakeup_; }
    // Reads the present number and makes it the new base; the difference to the old one is returned.
    std::uint64_t take_switches() noexcept;

    EpochMember& epoch() noexcept { return *epoch_; }
    const WorkerStats& stats() const noexcept { return stats_; }
    const WorkerOptions& options() const noexcept { return options_; }

private:
    explicit Worker(WorkerOptions options) : options_(std::move(options)), inbox_watcher_(*this) {}
    Status open();
    void bind_thread();
    bool deliver_messages();
    bool sweep_sources();
    bool arm_sources();
    void wait();
    void wake();

    // An eventfd write wakes the ring; there is nothing to do but look at the inbox, which happens anyway.
    struct InboxWatcher final : Watcher {
        Worker& worker;
        explicit InboxWatcher(Worker& w) : worker(w) {}
        void on_ready() override {}
    };

    WorkerOptions options_;
    // Shared with posters.
    std::atomic<Message*> inbox_{nullptr}; // newest first
    std::atomic<bool> waiting_{false};
    std::atomic<bool> stopping_{false};
    std::atomic<std::uint32_t> posting_{0}; // threads inside post()
    int wake_fd_ = -1;
    // This thread's.
    std::unique_ptr<Ring> ring_;
    std::unique_ptr<EpochMember> epoch_;
    InboxWatcher inbox_watcher_;
    Gate gate_;
    std::vector<Source*> sources_;
    std::size_t sweeping_ = 0; // index of the source after the one being visited
    std::uint64_t switches_at_wakeup_ = 0;
    WorkerStats stats_;
    std::thread thread_;
};

} // namespace viaduct::rt
