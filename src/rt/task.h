// SPDX-License-Identifier: Apache-2.0
//
// Task: a lazy coroutine, awaited once.
//
// It begins when it is awaited (or spawned on a Gate) and resumes on the worker it began on.  What it takes
// by reference outlives it; data comes in by value.  It can be called off by what its awaiter can be called
// off by.
#pragma once

#include "base/assert.h"
#include "rt/cancellation.h"
#include "rt/frame_pool.h"

#include <coroutine>
#include <exception>
#include <optional>
#include <utility>

namespace viaduct::rt {

template <class T> class Task;

namespace detail {

struct PromiseBase : PooledFrame, TaskContext {
    std::coroutine_handle<> continuation = std::noop_coroutine();

    std::suspend_always initial_suspend() noexcept { return {}; }
    void unhandled_exception() noexcept { std::terminate(); }

    struct FinalAwaiter {
        bool await_ready() noexcept { return false; }
        template <class Promise>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> finished) noexcept {
            return finished.promise().continuation;
        }
        void await_resume() noexcept {}
    };
    FinalAwaiter final_suspend() noexcept { return {}; }
};

template <class T> struct Promise : PromiseBase {
    std::optional<T> value;

    Task<T> get_return_object() noexcept;
    template <class U> void return_value(U&& result) { value.emplace(std::forward<U>(result)); }
    T take() {
        ASSERT(value.has_value());
        return std::move(*value);
    }
};

template <> struct Promise<void> : PromiseBase {
    Task<void> get_return_object() noexcept;
    void return_void() noexcept {}
    void take() noexcept {}
};

} // namespace detail

template <class T = void> class [[nodiscard]] Task {
public:
    using promise_type = detail::Promise<T>;

    explicit Task(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
    Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
    Task& operator=(Task&& other) noexcept {
        if (this != &other) {
            destroy();
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }
    ~Task() { destroy(); }

    // It and what it awaits are called off by `cancellation`, which outlives it, whoever awaits it.
    Task& cancelled_by(Cancellation& cancellation) noexcept {
        handle_.promise().cancellation = &cancellation;
        handle_.promise().own_cancellation = true;
        return *this;
    }
    // Nothing calls it off.
    Task& never_cancelled() noexcept {
        handle_.promise().cancellation = nullptr;
        handle_.promise().own_cancellation = true;
        return *this;
    }

    class Awaiter {
    public:
        explicit Awaiter(std::coroutine_handle<promise_type> handle) noexcept : handle_(handle) {}
        bool await_ready() const noexcept { return false; }
        template <class Waiter>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Waiter> waiter) const noexcept {
            promise_type& promise = handle_.promise();
            promise.continuation = waiter;
            if (!promise.own_cancellation) promise.cancellation = cancellation_of(waiter);
            return handle_;
        }
        T await_resume() const { return handle_.promise().take(); }

    private:
        std::coroutine_handle<promise_type> handle_;
    };

    auto operator co_await() && noexcept {
        ASSERT(static_cast<bool>(handle_)); // libstdc++ 12 mixes == of handles up with that of expected
        return Awaiter{handle_};
    }

private:
    void destroy() noexcept {
        if (handle_) handle_.destroy();
    }
    std::coroutine_handle<promise_type> handle_;
};

namespace detail {
template <class T> Task<T> Promise<T>::get_return_object() noexcept {
    return Task<T>{std::coroutine_handle<Promise<T>>::from_promise(*this)};
}
inline Task<void> Promise<void>::get_return_object() noexcept {
    return Task<void>{std::coroutine_handle<Promise<void>>::from_promise(*this)};
}
} // namespace detail

} // namespace viaduct::rt
