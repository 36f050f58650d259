// SPDX-License-Identifier: Apache-2.0
//
// Helpers: a bounded set of threads for calls that may block and have no ring form.
//
// One set per device, so that a share that hangs uses up its own helpers only.  Threads are made when they
// are first needed.  Calls beyond the bound wait in order.
#pragma once

#include "rt/worker.h"

#include <memory>
#include <type_traits>

namespace viaduct::rt {

class Helpers {
public:
    // At most `threads_max` threads, at least 1.
    explicit Helpers(std::uint32_t threads_max);
    // Waits for no call: threads that are inside one end by themselves when it returns.
    ~Helpers();

    // co_await helpers.run(function): calls `function` on a helper and resumes on this worker with its
    // result. `function` is held in the awaiting frame; what it refers to outlives the call.
    template <class Function> auto run(Function function) {
        using R = std::invoke_result_t<Function&>;
        struct Awaiter final : Job {
            Helpers& helpers;
            Function work;
            std::coroutine_handle<> waiter;
            std::optional<R> result;

            Awaiter(Helpers& h, Function f) : helpers(h), work(std::move(f)) {}
            void execute() override { result.emplace(work()); }
            void deliver() override { waiter.resume(); }
            bool await_ready() const noexcept { return false; }
            void await_suspend(std::coroutine_handle<> handle) {
                waiter = handle;
                origin = Worker::current();
                helpers.start(*this);
            }
            R await_resume() { return std::move(*result); }
        };
        return Awaiter{*this, std::move(function)};
    }

    // Executed on a helper, then delivered as a message on `origin`; without one, delivered on the helper.
    class Job : public Message {
    public:
        virtual void execute() = 0;
        Worker* origin = nullptr;

    protected:
        ~Job() = default;

    private:
        friend class Helpers;
        Job* next_job_ = nullptr;
    };

    // `job` lives until it is delivered.
    void start(Job& job);

private:
    // Shared by this object and each helper thread: a thread inside a call that never returns keeps it alive.
    struct State;
    static void serve(const std::shared_ptr<State>& state);
    static void finish(Job& job);
    std::shared_ptr<State> state_;
};

} // namespace viaduct::rt
