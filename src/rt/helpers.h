// SPDX-License-Identifier: Apache-2.0
//
// Helpers: a bounded set of threads for calls that may block and have no ring form.
//
// One set per device, so that a share that hangs uses up its own helpers only.  Threads are made when they
// are first needed.  Calls beyond the bound wait in order.
//
// A call that is cancelled is interrupted by a signal (SIGURG, with a handler that does nothing), which ends
// those system calls that signals can end.  One that comes just before the call blocks is lost, so it is sent
// again until the call has ended, by a thread that exists meanwhile.
#pragma once

#include "rt/worker.h"

#include <atomic>
#include <cerrno>
#include <memory>
#include <optional>
#include <pthread.h>
#include <type_traits>

namespace viaduct::rt {

class Helpers {
public:
    // At most `threads_max` threads, at least 1.
    explicit Helpers(std::uint32_t threads_max);
    // Waits for no call: threads that are inside one end by themselves when it returns.
    ~Helpers();

    // Executed on a helper, then delivered as a message on `origin`; without one, delivered on the helper.
    class Job : public Message {
    public:
        virtual void execute() = 0;
        Worker* origin = nullptr;
        // Once delivered: false when it was cancelled before a helper took it.
        bool executed() const noexcept { return executed_; }

    protected:
        ~Job() = default;

    private:
        friend class Helpers;
        // Under the state's mutex.
        Job* next_job_ = nullptr; // in the queue, or of those that are being interrupted
        bool queued_ = false;
        bool interrupted_ = false;
        pthread_t thread_ = 0; // that executes it, where `running_`
        bool running_ = false;
        bool executed_ = false;
        // Set under the mutex, read by the helper as well.
        std::atomic<bool> cancelled_{false};
    };

    // `job` lives until it is delivered.
    void start(Job& job);
    // On the job's origin, while it is not delivered: takes it out of the queue, or interrupts the system
    // call that it is in, until it has ended.  It is delivered all the same, once.
    void cancel(Job& job);
    // For execute(): the job that this thread executes is cancelled.  A call that gives EINTR is then not
    // made again.
    static bool cancelled_here() noexcept;

private:
    template <class Function> class Run : public Job {
    public:
        Run(Helpers& h, Function f) : helpers(h), function(std::move(f)) {}
        void execute() override { result.emplace(function()); }
        void deliver() override {
            if (cancellation != nullptr) cancellation->leave();
            waiter.resume();
        }
        bool await_ready() const noexcept { return false; }

        Helpers& helpers;
        Function function;
        std::coroutine_handle<> waiter;
        Cancellation* cancellation = nullptr;
        std::optional<std::invoke_result_t<Function&>> result;

    protected:
        ~Run() = default;
        void begin(std::coroutine_handle<> handle) {
            waiter = handle;
            this->origin = Worker::current();
            helpers.start(*this);
        }
    };
    template <class Function> class WholeRun final : public Run<Function> {
    public:
        using Run<Function>::Run;
        void await_suspend(std::coroutine_handle<> handle) { this->begin(handle); }
        auto await_resume() { return std::move(*this->result); }
    };
    template <class Function> class CancellableRun final : public Run<Function>, public Cancellable {
    public:
        using Run<Function>::Run;
        void cancel() override { this->helpers.cancel(*this); }
        template <class Waiter> bool await_suspend(std::coroutine_handle<Waiter> handle) {
            this->cancellation = cancellation_of(handle);
            if (this->cancellation != nullptr) {
                if (this->cancellation->requested()) return false;
                this->cancellation->enter(*this);
            }
            this->begin(handle);
            return true;
        }
        Result<std::invoke_result_t<Function&>> await_resume() {
            if (!this->result) return fail(ECANCELED);
            return std::move(*this->result);
        }
    };

public:
    // co_await helpers.run(function): calls `function` on a helper and resumes on this worker with its
    // result. `function` is held in the awaiting frame; what it refers to outlives the call.
    template <class Function> auto run(Function function) {
        return WholeRun<Function>{*this, std::move(function)};
    }
    // The same, as a Result, for a function that may be cancelled with its task.  ECANCELED: it was not
    // called.  A system call in it that can be interrupted gives EINTR.
    template <class Function> auto run_cancellable(Function function) {
        return CancellableRun<Function>{*this, std::move(function)};
    }

private:
    // Shared by this object and each helper thread: a thread inside a call that never returns keeps it alive.
    struct State;
    static void serve(const std::shared_ptr<State>& state);
    static void execute(Job& job);
    static void deliver(Job& job);
    static void interrupt_jobs(const std::shared_ptr<State>& state);
    std::shared_ptr<State> state_;
};

} // namespace viaduct::rt
