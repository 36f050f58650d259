// SPDX-License-Identifier: Apache-2.0
//
// Slots: a counting bound for coroutines of one worker; beyond it they wait in order.
//
// Bounds the ring operations that may block which one device has outstanding on one worker.
#pragma once

#include "rt/worker.h"

#include <coroutine>
#include <cstdint>
#include <deque>

namespace viaduct::rt {

class Slots {
public:
    explicit Slots(std::uint32_t count) noexcept : free_(count) {}
    Slots(const Slots&) = delete;
    Slots& operator=(const Slots&) = delete;

    // Holds one slot until destroyed.
    class Hold {
    public:
        explicit Hold(Slots& slots) noexcept : slots_(&slots) {}
        Hold(Hold&& other) noexcept : slots_(std::exchange(other.slots_, nullptr)) {}
        Hold& operator=(Hold&&) = delete;
        ~Hold() {
            if (slots_ != nullptr) slots_->release();
        }

    private:
        Slots* slots_;
    };

    // co_await slots.acquire() gives a Hold.
    auto acquire() noexcept { return Acquire{*this}; }

private:
    // The slot passes from the one who releases it to the one who waits.  That one is resumed by a message,
    // not from within the other: thousands may follow each other without ever suspending.
    struct Acquire final : Message {
        Slots& slots;
        std::coroutine_handle<> waiter;
        explicit Acquire(Slots& s) noexcept : slots(s) {}
        void deliver() override { waiter.resume(); }
        bool await_ready() const noexcept {
            if (slots.free_ == 0) return false;
            --slots.free_;
            return true;
        }
        void await_suspend(std::coroutine_handle<> handle) {
            waiter = handle;
            slots.waiters_.push_back(this);
        }
        Hold await_resume() const noexcept { return Hold{slots}; }
    };

    void release() {
        if (waiters_.empty()) {
            ++free_;
            return;
        }
        Acquire* const next = waiters_.front();
        waiters_.pop_front();
        Worker::current()->post(*next);
    }
    std::uint32_t free_;
    std::deque<Acquire*> waiters_;
};

} // namespace viaduct::rt
