// SPDX-License-Identifier: Apache-2.0
#include "rt/worker.h"

#include "base/log.h"
#include "rt/poll_spell.h"
#include "rt/thread.h"

#include <algorithm>
#include <future>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <system_error>
#include <unistd.h>

namespace viaduct::rt {
namespace {

constexpr std::uint32_t kPassesPerCollection = 64;
constexpr int kCollectionPauseMs = 5;

thread_local Worker* current_worker = nullptr;

std::uint64_t voluntary_switches() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

} // namespace

Outcome<std::unique_ptr<Worker>> Worker::start(WorkerOptions options) {
    std::unique_ptr<Worker> worker{new Worker{std::move(options)}};
    std::promise<Status> opened;
    auto result = opened.get_future();
    try {
        worker->thread_ = start_thread(worker->options_.name, [&worker = *worker, &opened] {
            const Status status = worker.open();
            opened.set_value(status);
            if (status) worker.run();
            worker.epoch_.reset();
            worker.ring_.reset();
        });
    } catch (const std::system_error& error) {
        return failure("cannot start worker " + worker->options_.name, Errno{error.code().value()},
                       "is the limit of processes of this user or cgroup reached?");
    }
    if (const Status status = result.get(); !status) {
        worker->thread_.join();
        return failure("cannot start worker " + worker->options_.name, status.error());
    }
    return worker;
}

Outcome<std::unique_ptr<Worker>> Worker::make(WorkerOptions options) {
    std::unique_ptr<Worker> worker{new Worker{std::move(options)}};
    if (const Status status = worker->open(); !status)
        return failure("cannot set up " + worker->options_.name, status.error());
    return worker;
}

Worker::~Worker() {
    if (thread_.joinable()) {
        stop();
        join();
    }
    // A started worker's went with its thread.
    epoch_.reset();
    ring_.reset();
    if (current_worker == this) current_worker = nullptr;
    // Whoever posted the last message may still be about to wake us.
    while (posting_.load(std::memory_order_acquire) > 0) std::this_thread::yield();
    if (wake_fd_ >= 0) ::close(wake_fd_);
}

Worker* Worker::current() noexcept {
    return current_worker;
}

Status Worker::open() {
    current_worker = this;
    bind_thread();
    std::optional<Errno> fallback;
    TRY(ring_, Ring::make(options_.ring, &fallback));
    if (fallback)
        log::warn("{}: io_uring_setup: {}; using the poll-based ring (is kernel.io_uring_disabled set, or a "
                  "seccomp profile active?)",
                  options_.name, *fallback);
    wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wake_fd_ < 0) return fail(errno);
    TRY_STATUS(ring_->watch(wake_fd_, inbox_watcher_));
    epoch_ = EpochMember::join();
    switches_at_wakeup_ = voluntary_switches();
    return {};
}

void Worker::bind_thread() {
    if (options_.cpus.empty()) return;
    cpu_set_t allowed;
    cpu_set_t wanted;
    CPU_ZERO(&wanted);
    if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    for (const int cpu : options_.cpus)
        if (cpu >= 0 && cpu < CPU_SETSIZE && CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &wanted);
    // Never outside the inherited mask; a binding that cannot be made is a loss of speed, not a failure.
    if (CPU_COUNT(&wanted) == 0 || ::sched_setaffinity(0, sizeof wanted, &wanted) != 0)
        log::warn("{}: cannot be bound to its CPUs; left to the scheduler", options_.name);
}

void Worker::run() {
    ASSERT(is_current());
    PollSpell idle;
    std::uint32_t passes = 0;
    while (true) {
        stats_.passes.add();
        const bool stopping = stopping_.load(std::memory_order_acquire);
        bool worked = deliver_messages();
        if (const std::size_t completions = ring_->reap(); completions > 0) {
            stats_.completions.add(completions);
            worked = true;
        }
        worked |= sweep_sources();
        ring_->submit();
        epoch_->quiescent();
        // A worker that always finds work frees what it has retired now and then.
        if (++passes % kPassesPerCollection == 0) epoch_->collect();
        if (stopping && inbox_.load(std::memory_order_acquire) == nullptr) break;
        if (worked) {
            idle.end();
            continue;
        }
        if (options_.poll_us > 0 && !idle.over(options_.poll_us * 1000ULL)) {
            relax();
            continue;
        }
        if (arm_sources()) continue;
        wait();
        idle.end();
    }
    // What was retired here is freed by whoever is left.
    epoch_->collect();
}

void Worker::wait() {
    // seq_cst with post(): either the poster sees that we wait and wakes us, or we see the message.
    waiting_.store(true, std::memory_order_seq_cst);
    if (inbox_.load(std::memory_order_seq_cst) == nullptr && !stopping_.load(std::memory_order_seq_cst)) {
        stats_.waits.add();
        epoch_->offline();
        // What another worker may still be looking at is tried again soon: a descriptor that stays open keeps
        // a deleted file's space and a mount busy.
        ring_->wait(epoch_->collect() > 0 ? kCollectionPauseMs : -1);
        epoch_->online();
        switches_at_wakeup_ = voluntary_switches();
    }
    waiting_.store(false, std::memory_order_seq_cst);
}

void Worker::wake() {
    if (!waiting_.exchange(false, std::memory_order_seq_cst)) return;
    const std::uint64_t one = 1;
    // A full counter (EAGAIN) wakes as well as another one.
    [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof one);
}

void Worker::post(Message& message) {
    posting_.fetch_add(1, std::memory_order_relaxed);
    Message* head = inbox_.load(std::memory_order_relaxed);
    do {
        message.next_ = head;
    } while (
        !inbox_.compare_exchange_weak(head, &message, std::memory_order_seq_cst, std::memory_order_relaxed));
    if (!is_current()) wake();
    // Release: the last touch of this object by this thread.
    posting_.fetch_sub(1, std::memory_order_release);
}

void Worker::stop() {
    stopping_.store(true, std::memory_order_seq_cst);
    wake();
}

void Worker::join() {
    if (thread_.joinable()) thread_.join();
}

bool Worker::deliver_messages() {
    if (inbox_.load(std::memory_order_relaxed) == nullptr) return false;
    Message* newest = inbox_.exchange(nullptr, std::memory_order_acquire);
    Message* oldest = nullptr;
    while (newest != nullptr) {
        Message* const next = newest->next_;
        newest->next_ = oldest;
        oldest = newest;
        newest = next;
    }
    while (oldest != nullptr) {
        Message* const next = oldest->next_; // deliver() may free the message
        oldest->deliver();
        stats_.messages.add();
        oldest = next;
    }
    return true;
}

bool Worker::sweep_sources() {
    bool worked = false;
    for (sweeping_ = 0; sweeping_ < sources_.size();) {
        // Its memory was written by another processor: it comes over while this one is served.
        if (sweeping_ + 1 < sources_.size()) sources_[sweeping_ + 1]->approach();
        worked |= sources_[sweeping_++]->sweep(options_.budget) == Source::Visit::worked;
    }
    return worked;
}

bool Worker::arm_sources() {
    bool found = false;
    for (sweeping_ = 0; sweeping_ < sources_.size();) found |= sources_[sweeping_++]->arm();
    return found;
}

void Worker::add(Source& source) {
    ASSERT(is_current());
    sources_.push_back(&source);
}

void Worker::remove(Source& source) {
    ASSERT(is_current());
    const auto found = std::ranges::find(sources_, &source);
    ASSERT(found != sources_.end());
    if (static_cast<std::size_t>(found - sources_.begin()) < sweeping_) --sweeping_;
    sources_.erase(found);
}

std::uint64_t Worker::take_switches() noexcept {
    const std::uint64_t now = voluntary_switches();
    return now - std::exchange(switches_at_wakeup_, now);
}

} // namespace viaduct::rt
