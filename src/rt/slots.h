// SPDX-License-Identifier: Apache-2.0
//
// Slots: a counting bound for coroutines of one worker; beyond it they wait in order.
//
// Bounds the ring operations that may block which one device has outstanding on one worker.
#pragma once

#include "rt/task.h"

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
    auto acquire() noexcept {
        struct Awaiter {
            Slots& slots;
            bool await_ready() const noexcept {
                if (slots.free_ == 0) return false;
                --slots.free_;
                return true;
            }
            // The slot passes from the one who releases it to the one resumed.
            void await_suspend(std::coroutine_handle<> waiter) const { slots.waiters_.push_back(waiter); }
            Hold await_resume() const noexcept { return Hold{slots}; }
        };
        return Awaiter{*this};
    }
    std::size_t waiting() const noexcept { return waiters_.size(); }

private:
    void release() {
        if (waiters_.empty()) {
            ++free_;
            return;
        }
        const auto next = waiters_.front();
        waiters_.pop_front();
        next.resume();
    }
    std::uint32_t free_;
    std::deque<std::coroutine_handle<>> waiters_;
};

} // namespace viaduct::rt
