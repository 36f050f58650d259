// SPDX-License-Identifier: Apache-2.0
//
// Async: a result that is there already, or a Task that will have it.
//
// Calls that usually finish at once return Async from an ordinary function: the common case makes no
// coroutine frame, and only the waiting case pays for one.
#pragma once

#include "base/result.h"
#include "rt/task.h"

#include <variant>

namespace viaduct::rt {

template <class T> class [[nodiscard]] Async {
public:
    using Value = Result<T>;

    Async(Value value) : state_(std::in_place_index<0>, std::move(value)) {}
    Async(std::unexpected<Errno> error) : state_(std::in_place_index<0>, error) {}
    template <class U>
        requires(!std::is_void_v<T> && std::is_convertible_v<U, T>)
    Async(U&& value) : state_(std::in_place_index<0>, Value{std::forward<U>(value)}) {}
    Async(Task<Value> task) : state_(std::in_place_index<1>, std::move(task)) {}

    bool ready() const noexcept { return state_.index() == 0; }
    // Only when ready().
    Value& value() noexcept { return *std::get_if<0>(&state_); }
    // Only when not ready(); takes the task out.
    Task<Value> task() && noexcept { return std::move(*std::get_if<1>(&state_)); }

    auto operator co_await() && noexcept {
        struct Awaiter {
            Async& async;
            std::optional<Task<Value>> task;
            decltype(std::declval<Task<Value>>().operator co_await()) inner{nullptr};

            bool await_ready() noexcept { return async.ready(); }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiter) noexcept {
                task.emplace(std::move(async).task());
                inner = std::move(*task).operator co_await();
                return inner.await_suspend(waiter);
            }
            Value await_resume() {
                if (!task) return std::move(async.value());
                return inner.await_resume();
            }
        };
        return Awaiter{*this, std::nullopt, {nullptr}};
    }

private:
    std::variant<Value, Task<Value>> state_;
};

} // namespace viaduct::rt
