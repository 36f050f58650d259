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

    class Awaiter {
    public:
        explicit Awaiter(Async& async) noexcept : async_(async) {}
        bool await_ready() const noexcept { return async_.ready(); }
        template <class Waiter>
        std::coroutine_handle<> await_suspend(std::coroutine_handle<Waiter> waiter) noexcept {
            task_.emplace(std::move(async_).task());
            inner_.emplace(std::move(*task_).operator co_await());
            return inner_->await_suspend(waiter);
        }
        Value await_resume() {
            if (!task_) return std::move(async_.value());
            return inner_->await_resume();
        }

    private:
        Async& async_;
        std::optional<Task<Value>> task_;
        std::optional<typename Task<Value>::Awaiter> inner_;
    };

    auto operator co_await() && noexcept { return Awaiter{*this}; }

private:
    std::variant<Value, Task<Value>> state_;
};

} // namespace viaduct::rt
