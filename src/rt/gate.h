// SPDX-License-Identifier: Apache-2.0
//
// Gate: the tasks that someone has started and not yet seen end.
//
// Stopping is: refuse new work, cancel, wait for the gate.  One worker owns a gate.
#pragma once

#include "rt/task.h"

#include <cstdint>
#include <utility>

namespace viaduct::rt {

class Gate {
public:
    Gate() = default;
    Gate(const Gate&) = delete;
    Gate& operator=(const Gate&) = delete;
    ~Gate() { ASSERT(count_ == 0); }

    // Runs `task` until it first waits; it goes on by itself.
    void spawn(Task<void> task) { run(*this, std::move(task)); }

    // Work that is no task counts too.
    void enter() noexcept { ++count_; }
    void leave() noexcept {
        ASSERT(count_ > 0);
        if (--count_ == 0 && waiter_) std::exchange(waiter_, nullptr).resume();
    }
    std::uint64_t count() const noexcept { return count_; }

    // Waits until nothing is inside.  One waiter at a time.
    auto empty() noexcept {
        struct Awaiter {
            Gate& gate;
            bool await_ready() const noexcept { return gate.count_ == 0; }
            void await_suspend(std::coroutine_handle<> waiter) const noexcept {
                ASSERT(!gate.waiter_);
                gate.waiter_ = waiter;
            }
            void await_resume() const noexcept {}
        };
        return Awaiter{*this};
    }

private:
    // A coroutine that nobody awaits: begins at once, frees itself at the end.
    struct Detached {
        struct promise_type : PooledFrame {
            Detached get_return_object() noexcept { return {}; }
            std::suspend_never initial_suspend() noexcept { return {}; }
            std::suspend_never final_suspend() noexcept { return {}; }
            void return_void() noexcept {}
            void unhandled_exception() noexcept { std::terminate(); }
        };
    };
    // Leaves the gate as the very last thing, when the task and its frame are gone.
    struct Inside {
        Gate& gate;
        explicit Inside(Gate& g) noexcept : gate(g) { gate.enter(); }
        Inside(const Inside&) = delete;
        Inside& operator=(const Inside&) = delete;
        ~Inside() { gate.leave(); }
    };
    static Detached run(Gate& gate, Task<void> task) {
        const Inside inside{gate};
        Task<void> owned = std::move(task);
        co_await std::move(owned);
    }

    std::uint64_t count_ = 0;
    std::coroutine_handle<> waiter_;
};

} // namespace viaduct::rt
