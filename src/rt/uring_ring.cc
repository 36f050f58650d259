// SPDX-License-Identifier: Apache-2.0
#include "rt/uring_ring.h"

#include "base/assert.h"
#include "base/log.h"
#include "rt/ring_flags.h"

#include <poll.h>

namespace viaduct::rt {
namespace {

constexpr unsigned kEntries = 256;
// Buffered file operations that may block run on the kernel's io-wq; its bound per thread is raised above the
// sum of what the devices of one worker may have outstanding.
constexpr unsigned kBlockingMax = 256;

// What user_data names, in its low two bits; pointers to Operation are aligned to 8.
enum Tag : std::uint64_t { operation_tag = 0, watch_tag = 1, ignored_tag = 2 };
constexpr std::uint64_t kTagMask = 3;
constexpr std::uint64_t watch_data(WatchTable::Key key) {
    return key << 2 | watch_tag;
}

void prepare(io_uring_sqe* sqe, Operation& operation) {
    using Kind = OperationRequest::Kind;
    const OperationRequest& request = operation.request();
    switch (request.kind) {
    case Kind::readv:
        io_uring_prep_readv2(sqe, request.fd, request.iov, request.iov_count, request.offset,
                             request.flags & ~kMayBlock);
        if ((request.flags & kMayBlock) != 0) sqe->flags |= IOSQE_ASYNC;
        break;
    case Kind::writev:
        io_uring_prep_writev2(sqe, request.fd, request.iov, request.iov_count, request.offset,
                              request.flags & ~kMayBlock);
        if ((request.flags & kMayBlock) != 0) sqe->flags |= IOSQE_ASYNC;
        break;
    case Kind::fsync:
        io_uring_prep_fsync(sqe, request.fd, request.flags != 0 ? IORING_FSYNC_DATASYNC : 0);
        break;
    case Kind::fallocate:
        io_uring_prep_fallocate(sqe, request.fd, request.flags, static_cast<off_t>(request.offset),
                                static_cast<off_t>(request.length));
        break;
    case Kind::poll:
        io_uring_prep_poll_add(sqe, request.fd, static_cast<unsigned>(request.flags));
        break;
    case Kind::timeout:
        // The kernel reads the time when the entry is submitted, which may be later than now: it lies in the
        // operation, which outlives that.
        io_uring_prep_timeout(sqe, reinterpret_cast<__kernel_timespec*>(operation.timeout_storage()), 0, 0);
        break;
    }
    io_uring_sqe_set_data64(sqe, reinterpret_cast<std::uint64_t>(&operation) | operation_tag);
}

} // namespace

Result<std::unique_ptr<Ring>> UringRing::make() {
    std::unique_ptr<UringRing> made{new UringRing};
    // SQE128: a worker's ring can serve a FUSE ring later.  Flags of newer kernels are tried first.
    constexpr unsigned kWanted[] = {
        IORING_SETUP_SQE128 | IORING_SETUP_CLAMP | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
            IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SINGLE_ISSUER,
        IORING_SETUP_SQE128 | IORING_SETUP_CLAMP,
    };
    int error = -EINVAL;
    for (const unsigned flags : kWanted) {
        io_uring_params params{};
        params.flags = flags | IORING_SETUP_CQSIZE;
        params.cq_entries = 4 * kEntries;
        error = io_uring_queue_init_params(kEntries, &made->ring_, &params);
        if (error == 0) break;
    }
    if (error < 0) return fail(-error);
    made->open_ = true;
    unsigned bounds[2] = {kBlockingMax, kBlockingMax};
    io_uring_register_iowq_max_workers(&made->ring_, bounds);
    return made;
}

UringRing::~UringRing() {
    if (open_) io_uring_queue_exit(&ring_);
}

io_uring_sqe* UringRing::sqe() {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);
    while (entry == nullptr) {
        submit();
        entry = io_uring_get_sqe(&ring_);
    }
    return entry;
}

void UringRing::start(Operation& operation) {
    prepare(sqe(), operation);
}

void UringRing::cancel(Operation& operation) {
    io_uring_sqe* const entry = sqe();
    io_uring_prep_cancel64(entry, reinterpret_cast<std::uint64_t>(&operation) | operation_tag, 0);
    io_uring_sqe_set_data64(entry, ignored_tag);
}

void UringRing::arm(WatchTable::Key key, int fd) {
    io_uring_sqe* const entry = sqe();
    io_uring_prep_poll_multishot(entry, fd, POLLIN);
    io_uring_sqe_set_data64(entry, watch_data(key));
}

Status UringRing::watch(int fd, Watcher& watcher) {
    arm(watches_.add(fd, watcher), fd);
    return {};
}

void UringRing::unwatch(int fd, Watcher& watcher) {
    const auto key = watches_.remove(fd, watcher);
    if (!key) return;
    io_uring_sqe* const entry = sqe();
    io_uring_prep_poll_remove(entry, watch_data(*key));
    io_uring_sqe_set_data64(entry, ignored_tag);
    submit(); // the descriptor may be closed now
}

void UringRing::submit() {
    if (io_uring_sq_ready(&ring_) == 0) return;
    const int result = io_uring_submit(&ring_);
    // EBUSY, EAGAIN: completions must be taken first, or memory is short; the entries stay and are tried
    // again.
    if (result < 0 && result != -EBUSY && result != -EAGAIN && result != -EINTR)
        log::error("io_uring_submit: {}", Errno{-result});
}

std::size_t UringRing::reap() {
    std::size_t count = 0;
    io_uring_cqe* cqe = nullptr;
    while (io_uring_peek_cqe(&ring_, &cqe) == 0) {
        const io_uring_cqe copy = *cqe;
        io_uring_cqe_seen(&ring_, cqe);
        deliver(copy);
        ++count;
    }
    return count;
}

void UringRing::deliver(const io_uring_cqe& cqe) {
    switch (cqe.user_data & kTagMask) {
    case operation_tag:
        reinterpret_cast<Operation*>(cqe.user_data)->complete(cqe.res);
        return;
    case watch_tag: {
        const WatchTable::Key key = cqe.user_data >> 2;
        const WatchTable::Watch* const watch = watches_.find(key);
        if (watch == nullptr) return;
        Watcher& watcher = *watch->watcher;
        // A multishot poll ends by itself when the completion queue was full.
        if ((cqe.flags & IORING_CQE_F_MORE) == 0 && cqe.res >= 0) arm(key, watch->fd);
        watcher.on_ready();
        return;
    }
    default:
        return;
    }
}

void UringRing::wait(int limit_ms) {
    int result = 0;
    if (limit_ms < 0) {
        result = io_uring_submit_and_wait(&ring_, 1);
    } else {
        __kernel_timespec limit{.tv_sec = limit_ms / 1000, .tv_nsec = limit_ms % 1000 * 1'000'000LL};
        io_uring_cqe* first = nullptr;
        result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &limit, nullptr);
    }
    if (result < 0 && result != -EINTR && result != -EBUSY && result != -EAGAIN && result != -ETIME)
        log::error("io_uring_enter: {}", Errno{-result});
}

} // namespace viaduct::rt
