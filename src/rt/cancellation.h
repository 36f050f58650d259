// SPDX-License-Identifier: Apache-2.0
//
// Cancellation: a wish that a task end early, and what the task waits for meanwhile.
//
// Who starts a task owns the Cancellation and names it to the outermost Task; each Task passes it on to those
// that it awaits.  What can be called off enters itself while it is awaited.  Everything belongs to the
// worker that the task runs on: there is no lock and no atomic in it, and a task that never waits writes
// nothing. docs/decisions/cancelling.md.
#pragma once

#include "base/assert.h"

#include <coroutine>
#include <type_traits>

namespace viaduct::rt {

// Something that is awaited and may be asked to end early.
class Cancellable {
public:
    // It ends all the same, once, and later than in this call: soon with ECANCELED or EINTR, or in its own
    // time.
    virtual void cancel() = 0;

protected:
    ~Cancellable() = default;
};

class Cancellation {
public:
    Cancellation() = default;
    Cancellation(const Cancellation&) = delete;
    Cancellation& operator=(const Cancellation&) = delete;

    // From now on nothing that can be called off is waited for.  Repeating it is harmless.
    void request() {
        if (requested_) return;
        requested_ = true;
        if (awaited_ != nullptr) awaited_->cancel();
    }
    bool requested() const noexcept { return requested_; }
    // For the next task, when the one before has ended.
    void reset() noexcept {
        ASSERT(awaited_ == nullptr);
        requested_ = false;
    }

    // For awaiters, around the wait.  A task waits for one thing at a time.
    void enter(Cancellable& awaited) noexcept {
        ASSERT(awaited_ == nullptr);
        awaited_ = &awaited;
    }
    void leave() noexcept { awaited_ = nullptr; }

private:
    Cancellable* awaited_ = nullptr;
    bool requested_ = false;
};

// What a coroutine hands down to those that it awaits.
struct TaskContext {
    Cancellation* cancellation = nullptr;
    bool own_cancellation = false; // it was named to this very task, and is not its awaiter's
};

// Of the coroutine that awaits; nullptr: it cannot be called off.
template <class Promise> Cancellation* cancellation_of(std::coroutine_handle<Promise> waiter) noexcept {
    if constexpr (std::is_base_of_v<TaskContext, Promise>)
        return waiter.promise().cancellation;
    else
        return nullptr;
}

} // namespace viaduct::rt
