// SPDX-License-Identifier: Apache-2.0
//
// Operation: one thing asked of a ring and awaited.
//
// It lives in the awaiting coroutine's frame until its completion arrives, and so do the buffers it names.
#pragma once

#include "rt/cancellation.h"

#include <coroutine>
#include <cstdint>
#include <sys/types.h>
#include <sys/uio.h>

namespace viaduct::rt {

class Ring;

// What to do, in the terms of the system call of the same name.
struct OperationRequest {
    enum class Kind : std::uint8_t { readv, writev, fsync, fallocate, poll, timeout };

    Kind kind = Kind::readv;
    int fd = -1;
    int flags = 0;              // readv, writev: RWF_*; fsync: 1 = data only; fallocate: mode; poll: events
    const iovec* iov = nullptr; // readv, writev
    std::uint32_t iov_count = 0;
    std::uint64_t offset = 0; // bytes
    std::uint64_t length = 0; // fallocate: bytes; timeout: nanoseconds from now
};

// Awaitable.  The result is that of the system call, or -errno; -ETIME for a timeout that ran out.  After
// Ring::cancel, and when the awaiting task is called off, -ECANCELED, or -EINTR for a system call that had
// begun; an operation that cannot be called back ends in its own time.
class Operation final : public Cancellable {
public:
    Operation(Ring& ring, const OperationRequest& request) noexcept : ring_(ring), request_(request) {}
    Operation(const Operation&) = delete;
    Operation& operator=(const Operation&) = delete;

    bool await_ready() const noexcept { return false; }
    template <class Waiter> bool await_suspend(std::coroutine_handle<Waiter> waiter) {
        waiter_ = waiter;
        cancellation_ = cancellation_of(waiter);
        return begin();
    }
    int await_resume() const noexcept { return result_; }

    const OperationRequest& request() const noexcept { return request_; }

    void cancel() override;

    // For rings: delivers the completion.
    void complete(int result) {
        result_ = result;
        if (cancellation_ != nullptr) cancellation_->leave();
        waiter_.resume();
    }

    // For rings: a timespec (two 64-bit words) that lives as long as the operation.
    std::int64_t* timeout_storage() noexcept {
        timeout_[0] = static_cast<std::int64_t>(request_.length / 1'000'000'000U);
        timeout_[1] = static_cast<std::int64_t>(request_.length % 1'000'000'000U);
        return timeout_;
    }

    // For rings: what carries it out.
    void* carrier = nullptr;

private:
    bool begin(); // false: it has ended already

    Ring& ring_;
    OperationRequest request_;
    std::int64_t timeout_[2] = {0, 0};
    std::coroutine_handle<> waiter_;
    Cancellation* cancellation_ = nullptr;
    int result_ = 0;
};

} // namespace viaduct::rt
