// SPDX-License-Identifier: Apache-2.0
//
// Ring: the one place in which a worker waits.
//
// Two kinds: io_uring, and a poll-based one (epoll, with file operations on threads) where io_uring is
// forbidden.  All calls from the owning thread.
#pragma once

#include "base/result.h"
#include "rt/operation.h"

#include <cerrno>
#include <memory>
#include <optional>

namespace viaduct::rt {

// Told when a watched descriptor becomes ready.
class Watcher {
public:
    virtual void on_ready() = 0;

protected:
    ~Watcher() = default;
};

class Ring {
public:
    enum class Kind { uring, poll };

    // Falls back to `poll` where io_uring_setup is refused, unless `required` names a kind.
    // `fallback_reason`, when not null, gets the error that made it fall back.
    static Result<std::unique_ptr<Ring>> make(std::optional<Kind> required = std::nullopt,
                                              std::optional<Errno>* fallback_reason = nullptr);
    virtual ~Ring() = default;

    // Begins `operation`; its waiter resumes in reap().
    virtual void start(Operation& operation) = 0;
    // Asks an operation that has begun to end early.  It completes all the same, once.
    virtual void cancel(Operation& operation) = 0;

    // Calls `watcher` from reap() each time `fd` becomes readable (edge-triggered; an eventfd need not be
    // read).  The descriptor and the watcher live until unwatch().
    virtual Status watch(int fd, Watcher& watcher) = 0;
    virtual void unwatch(int fd, Watcher& watcher) = 0;

    // Hands prepared operations to the kernel.
    virtual void submit() = 0;
    // Delivers what has completed; the number delivered.
    virtual std::size_t reap() = 0;
    // Submits and sleeps until something completes, or for `limit_ms` milliseconds (-1: without a limit).
    virtual void wait(int limit_ms) = 0;

    // Shorthands.
    Operation readv(int fd, const iovec* iov, std::uint32_t count, std::uint64_t offset, int flags = 0) {
        return Operation{*this,
                         {.kind = OperationRequest::Kind::readv,
                          .fd = fd,
                          .flags = flags,
                          .iov = iov,
                          .iov_count = count,
                          .offset = offset}};
    }
    Operation writev(int fd, const iovec* iov, std::uint32_t count, std::uint64_t offset, int flags = 0) {
        return Operation{*this,
                         {.kind = OperationRequest::Kind::writev,
                          .fd = fd,
                          .flags = flags,
                          .iov = iov,
                          .iov_count = count,
                          .offset = offset}};
    }
    Operation fsync(int fd, bool data_only) {
        return Operation{*this,
                         {.kind = OperationRequest::Kind::fsync, .fd = fd, .flags = data_only ? 1 : 0}};
    }
    Operation fallocate(int fd, int mode, std::uint64_t offset, std::uint64_t bytes) {
        return Operation{*this,
                         {.kind = OperationRequest::Kind::fallocate,
                          .fd = fd,
                          .flags = mode,
                          .offset = offset,
                          .length = bytes}};
    }
    // Waits for `events` (POLLIN, ...) once; the result is the mask that came.
    Operation poll(int fd, int events) {
        return Operation{*this, {.kind = OperationRequest::Kind::poll, .fd = fd, .flags = events}};
    }
    // -ETIME when the time is over.
    Operation sleep(std::uint64_t nanoseconds) {
        return Operation{*this, {.kind = OperationRequest::Kind::timeout, .length = nanoseconds}};
    }
};

inline bool Operation::begin() {
    if (cancellation_ != nullptr) {
        if (cancellation_->requested()) {
            result_ = -ECANCELED;
            return false;
        }
        cancellation_->enter(*this);
    }
    ring_.start(*this);
    return true;
}

inline void Operation::cancel() {
    ring_.cancel(*this);
}

} // namespace viaduct::rt
