// SPDX-License-Identifier: Apache-2.0
//
// Slots: a counting bound for coroutines of one worker; beyond it they wait in order.
//
// Bounds the ring operations that may block which one device has outstanding on one worker.
#pragma once

#include "rt/worker.h"

#include <algorithm>
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
        Hold() = default;
        explicit Hold(Slots& slots) noexcept : slots_(&slots) {}
        Hold(Hold&& other) noexcept : slots_(std::exchange(other.slots_, nullptr)) {}
        Hold& operator=(Hold&&) = delete;
        ~Hold() {
            if (slots_ != nullptr) slots_->release();
        }

    private:
        Slots* slots_ = nullptr;
    };

    // co_await slots.acquire() gives a Hold; an empty one when the task is called off meanwhile, whose next
    // operation then does not begin.
    auto acquire() noexcept { return Acquire{*this}; }

private:
    // The slot passes from the one who releases it to the one who waits.  That one is resumed by a message,
    // not from within the other: thousands may follow each other without ever suspending.
    struct Acquire final : Message, Cancellable {
        Slots& slots;
        std::coroutine_handle<> waiter;
        Cancellation* cancellation = nullptr;
        bool called_off = false;
        explicit Acquire(Slots& s) noexcept : slots(s) {}
        void deliver() override {
            if (cancellation != nullptr) cancellation->leave();
            waiter.resume();
        }
        void cancel() override {
            const auto place = std::ranges::find(slots.waiters_, this);
            if (place == slots.waiters_.end()) return; // it has a slot, and is about to hear of it
            slots.waiters_.erase(place);
            called_off = true;
            Worker::current()->post(*this);
        }
        bool await_ready() const noexcept {
            if (slots.free_ == 0) return false;
            --slots.free_;
            return true;
        }
        template <class Waiter> bool await_suspend(std::coroutine_handle<Waiter> handle) {
            waiter = handle;
            cancellation = cancellation_of(handle);
            if (cancellation != nullptr) {
                called_off = cancellation->requested();
                if (called_off) return false;
                cancellation->enter(*this);
            }
            slots.waiters_.push_back(this);
            return true;
        }
        Hold await_resume() const noexcept { return called_off ? Hold{} : Hold{slots}; }
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
