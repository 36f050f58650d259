// SPDX-License-Identifier: Apache-2.0
#include "rt/poll_ring.h"

#include "base/clock.h"
#include "base/log.h"
#include "rt/ring_flags.h"

#include <algorithm>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace viaduct::rt {
namespace {

constexpr std::uint32_t kThreadsMax = 16;
constexpr int kEventsMax = 64;
constexpr std::uint64_t kWatchTag = 1; // in the event's data; pointers to Operation are aligned to 8

int execute(const OperationRequest& request) {
    using Kind = OperationRequest::Kind;
    const auto count = static_cast<int>(request.iov_count);
    const auto offset = static_cast<off_t>(request.offset);
    ssize_t result = -1;
    switch (request.kind) {
    case Kind::readv:
        result = ::preadv2(request.fd, request.iov, count, offset, request.flags & ~kMayBlock);
        break;
    case Kind::writev:
        result = ::pwritev2(request.fd, request.iov, count, offset, request.flags & ~kMayBlock);
        break;
    case Kind::fsync:
        result = request.flags != 0 ? ::fdatasync(request.fd) : ::fsync(request.fd);
        break;
    case Kind::fallocate:
        result = ::fallocate(request.fd, request.flags, offset, static_cast<off_t>(request.length));
        break;
    case Kind::poll:
    case Kind::timeout:
        ASSERT(false);
    }
    return result < 0 ? -errno : static_cast<int>(result);
}

// A file operation on a thread; frees itself when its result has been delivered.
class FileJob final : public Helpers::Job {
public:
    explicit FileJob(Operation& operation) : operation_(operation) { origin = Worker::current(); }
    void execute() override { result_ = rt::execute(operation_.request()); }
    void deliver() override {
        Operation& operation = operation_;
        const int result = executed() ? result_ : -ECANCELED;
        delete this;
        operation.complete(result);
    }

private:
    Operation& operation_;
    int result_ = 0;
};

} // namespace

PollRing::PollRing() : threads_(kThreadsMax) {}

Result<std::unique_ptr<Ring>> PollRing::make() {
    std::unique_ptr<PollRing> made{new PollRing};
    made->epoll_ = Fd{::epoll_create1(EPOLL_CLOEXEC)};
    if (!made->epoll_) return fail(errno);
    return made;
}

void PollRing::start(Operation& operation) {
    using Kind = OperationRequest::Kind;
    switch (operation.request().kind) {
    case Kind::poll:
        start_poll(operation);
        break;
    case Kind::timeout:
        timers_.emplace(monotonic_ns() + operation.request().length, &operation);
        break;
    default: {
        auto* const job = new FileJob{operation};
        operation.carrier = job;
        threads_.start(*job);
        break;
    }
    }
}

void PollRing::start_poll(Operation& operation) {
    Fd copy{::fcntl(operation.request().fd, F_DUPFD_CLOEXEC, 0)};
    epoll_event event{};
    // The bits of poll(2) and epoll(7) are the same for what is used here.
    event.events = static_cast<std::uint32_t>(operation.request().flags) | EPOLLONESHOT;
    event.data.u64 = reinterpret_cast<std::uint64_t>(&operation);
    if (!copy || ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, copy.get(), &event) != 0) {
        done_.push_back({&operation, -errno});
        return;
    }
    polls_.emplace(&operation, std::move(copy));
}

void PollRing::finish_poll(Operation& operation, int result) {
    const auto found = polls_.find(&operation);
    if (found == polls_.end()) return;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second.get(), nullptr);
    polls_.erase(found);
    done_.push_back({&operation, result});
}

void PollRing::cancel(Operation& operation) {
    if (operation.carrier != nullptr) return threads_.cancel(*static_cast<FileJob*>(operation.carrier));
    finish_poll(operation, -ECANCELED);
    const auto timer = std::ranges::find(timers_, &operation, [](const auto& entry) { return entry.second; });
    if (timer == timers_.end()) return;
    timers_.erase(timer);
    done_.push_back({&operation, -ECANCELED});
}

Status PollRing::watch(int fd, Watcher& watcher) {
    epoll_event event{};
    event.events = EPOLLIN | EPOLLET;
    event.data.u64 = watches_.add(fd, watcher) << 2 | kWatchTag;
    if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0) return {};
    const int error = errno;
    watches_.remove(fd, watcher);
    return fail(error);
}

void PollRing::unwatch(int fd, Watcher& watcher) {
    if (watches_.remove(fd, watcher)) ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

void PollRing::take_events(int timeout_ms) {
    epoll_event events[kEventsMax];
    const int count = ::epoll_wait(epoll_.get(), events, kEventsMax, timeout_ms);
    for (int index = 0; index < count; ++index) {
        const std::uint64_t data = events[index].data.u64;
        if ((data & kWatchTag) != 0)
            ready_.push_back(data >> 2);
        else
            finish_poll(*reinterpret_cast<Operation*>(data), static_cast<int>(events[index].events));
    }
    const std::uint64_t now_ns = monotonic_ns();
    while (!timers_.empty() && timers_.begin()->first <= now_ns) {
        done_.push_back({timers_.begin()->second, -ETIME});
        timers_.erase(timers_.begin());
    }
}

std::size_t PollRing::reap() {
    // While the worker is busy a look costs one system call; wait() has left events here when it was not.
    if (ready_.empty() && done_.empty() && (!polls_.empty() || !timers_.empty())) take_events(0);
    std::size_t count = 0;
    while (!ready_.empty() || !done_.empty()) {
        const auto ready = std::exchange(ready_, {});
        const auto done = std::exchange(done_, {});
        for (const WatchTable::Key key : ready)
            if (const auto* watch = watches_.find(key); watch != nullptr) watch->watcher->on_ready();
        for (const Done& one : done) one.operation->complete(one.result);
        count += ready.size() + done.size();
    }
    return count;
}

int PollRing::wait_ms(int limit_ms) const {
    if (!ready_.empty() || !done_.empty()) return 0;
    if (timers_.empty()) return limit_ms;
    const std::uint64_t now_ns = monotonic_ns();
    const std::uint64_t deadline_ns = timers_.begin()->first;
    // Rounded up: waking early would only spin.
    const int timer_ms =
        deadline_ns <= now_ns ? 0 : static_cast<int>((deadline_ns - now_ns + 999'999) / 1'000'000);
    return limit_ms < 0 ? timer_ms : std::min(timer_ms, limit_ms);
}

void PollRing::wait(int limit_ms) {
    take_events(wait_ms(limit_ms));
}

} // namespace viaduct::rt
