// SPDX-License-Identifier: Apache-2.0
#include "driver/load_thread.h"

#include "fuse/opcodes.h"

#include <algorithm>
#include <sched.h>
#include <sys/resource.h>

namespace viaduct::driver {
namespace {

// Sweeps that find nothing, after which the CPU is left to others: the server may need this one.
constexpr std::uint32_t kIdleSweepsMax = 2000;
constexpr std::uint32_t kIdleSweepsPerLook = 50;
static_assert(kIdleSweepsMax % kIdleSweepsPerLook == 0);
// A device that answers nothing for so long is given up.
constexpr std::chrono::seconds kSilenceMax{30};

thread_local LoadThread* this_thread = nullptr;

std::uint64_t thread_switches() {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw) + static_cast<std::uint64_t>(usage.ru_nivcsw);
}

std::uint64_t ns_of(Deadline time) {
    return static_cast<std::uint64_t>(std::chrono::nanoseconds{time.time_since_epoch()}.count());
}

void pin_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    ::sched_setaffinity(0, sizeof set, &set);
}

void relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

} // namespace

LoadThread::LoadThread(Load& load, std::uint32_t number, std::span<const std::unique_ptr<LoadSlot>> slots)
    : load_(load), number_(number), slots_(slots) {
    for (const auto& slot : slots_) {
        slot->set_owner(*this);
        add_queue(slot->queue());
    }
    for (std::uint32_t queue = 0; load_.options().by_cpu && queue < load_.options().queues; ++queue)
        add_queue(load_.device_.request_queue(queue));
    back_.reserve(slots_.size());
}

void LoadThread::add_queue(RequestQueue& queue) {
    const auto same = [&](const OnQueue& on_queue) { return on_queue.queue == &queue; };
    if (std::ranges::any_of(queues_, same)) return;
    queues_.push_back({.queue = &queue, .staged = load_.staged(queue), .batch = {}});
}

LoadResult LoadThread::run(const LoadLimit& limit) {
    const auto& cpus = load_.options().cpus;
    if (!cpus.empty()) pin_to(cpus[number_ % cpus.size()]);
    this_thread = this;
    const auto start = std::chrono::steady_clock::now();
    now_ = start;
    cpu_ = ::sched_getcpu();
    if (limit.time) end_ = start + *limit.time;
    if (limit.operations) { // this thread's share
        const std::uint32_t threads = load_.options().threads;
        begun_max_ = *limit.operations / threads + (number_ < *limit.operations % threads ? 1 : 0);
    }
    const std::uint64_t switches_start = thread_switches();
    begin_all();
    std::uint32_t idle_sweeps = 0;
    auto last_news = start;
    while (outstanding_ > 0) {
        if (now_ >= end_) over_ = true;
        if (sweep()) {
            idle_sweeps = 0;
            last_news = now_;
            continue;
        }
        ++idle_sweeps;
        // A look at the clock takes as long as the rest of a sweep that finds nothing.
        if (load_.options().completion == Completion::poll && idle_sweeps % kIdleSweepsPerLook != 0) {
            relax();
            continue;
        }
        now_ = std::chrono::steady_clock::now();
        if (now_ - last_news > kSilenceMax) { // the slots stay the queue's; there is no going on from here
            result_.first_error = "no answer for 30 s";
            ++result_.errors;
            for (OnQueue& on_queue : queues_) on_queue.queue->end(Errno{ETIMEDOUT}, true);
        }
        idle(idle_sweeps);
    }
    result_.context_switches = thread_switches() - switches_start;
    result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    this_thread = nullptr;
    return result_;
}

bool LoadThread::may_begin() {
    return !over_ && begun_ < begun_max_;
}

void LoadThread::begin_all() {
    for (const auto& slot : slots_) {
        if (!may_begin()) break;
        ++begun_;
        begin(*slot);
    }
    send_all();
}

void LoadThread::begin(LoadSlot& slot) {
    slot.begin();
    slot.begun_ns = ns_of(now_);
    put(slot);
}

void LoadThread::put(LoadSlot& slot) {
    if (load_.options().by_cpu) {
        const std::uint32_t queue = load_.device_.request_queue_of_cpu(cpu_);
        slot.set_queue(load_.device_.request_queue(queue < load_.options().queues ? queue : 0));
    }
    OnQueue& on_queue = of(slot.queue());
    if (on_queue.batch.empty()) to_send_.push_back(&on_queue);
    on_queue.batch.push_back(&slot);
}

LoadThread::OnQueue& LoadThread::of(const RequestQueue& queue) {
    if (visiting_ != nullptr && visiting_->queue == &queue) return *visiting_;
    return *std::ranges::find(queues_, &queue, &OnQueue::queue);
}

// Each queue in turn: what has come back is sent again at once, with one kick.
bool LoadThread::sweep() {
    bool news = false;
    // 29 ns each where this was measured, while putting a value in the histogram is below one.
    const bool times_each = load_.options().latencies;
    const bool polls = load_.options().completion != Completion::threads;
    look_at_cpu();
    if (load_.options().completion == Completion::wait) news_.store(false, std::memory_order_relaxed);
    for (OnQueue& on_queue : queues_) {
        if (polls) on_queue.queue->poll();
        take_inbox();
        if (back_.empty()) continue;
        news = true;
        if (times_each) now_ = std::chrono::steady_clock::now();
        visiting_ = &on_queue;
        for (LoadSlot* const slot : back_) advance(*slot);
        back_.clear();
        send_all();
    }
    if (news && !times_each) now_ = std::chrono::steady_clock::now();
    return news;
}

void LoadThread::advance(LoadSlot& slot) {
    --outstanding_;
    ++result_.requests;
    if (slot.ended_cpu == slot.submitted_cpu) ++result_.on_submitter_cpu;
    const std::uint32_t opcode = slot.opcode();
    if (!slot.go_on()) return put(slot);
    ++result_.operations;
    if (slot.mismatch()) ++result_.mismatches;
    if (slot.error() != 0) {
        if (result_.errors++ == 0)
            result_.first_error = std::string{fuse::opcode(opcode).name} + ": " + Errno{slot.error()}.name();
        over_ = true;
        return;
    }
    result_.bytes += slot.bytes();
    if (load_.options().latencies) result_.latency.record(ns_of(now_) - slot.begun_ns);
    if (!may_begin()) return;
    ++begun_;
    begin(slot);
}

void LoadThread::send_all() {
    for (OnQueue* const on_queue : to_send_) send(*on_queue);
    to_send_.clear();
}

void LoadThread::send(OnQueue& on_queue) {
    outstanding_ += on_queue.batch.size();
    for (Request* const request : on_queue.batch) static_cast<LoadSlot*>(request)->submitted_cpu = cpu_;
    const Status sent = on_queue.staged != nullptr ? on_queue.staged->submit(on_queue.batch)
                                                   : on_queue.queue->submit(on_queue.batch);
    if (!sent) { // not running any more
        outstanding_ -= on_queue.batch.size();
        if (result_.errors++ == 0) result_.first_error = "submit: " + sent.error().name();
        over_ = true;
    }
    on_queue.batch.clear();
}

// Once a sweep: what is sent and found in it counts as done on this CPU.
void LoadThread::look_at_cpu() {
    const int cpu = ::sched_getcpu();
    if (cpu == cpu_) return;
    ++result_.migrations;
    cpu_ = cpu;
}

void LoadThread::idle(std::uint32_t times) {
    if (load_.options().completion == Completion::wait) {
        queues_.front().queue->wait_for(news_, after(std::chrono::milliseconds{100}));
        return;
    }
    if (load_.options().completion == Completion::threads) {
        sync::Lock lock{inbox_mutex_};
        asleep_ = true;
        inbox_has_.wait_for(lock, std::chrono::milliseconds{100}, [this] { return !inbox_.empty(); });
        asleep_ = false;
        return;
    }
    if (times % kIdleSweepsMax == 0) {
        ::sched_yield();
    } else {
        relax();
    }
}

void LoadThread::came_back(LoadSlot& slot) {
    if (this_thread == this) {
        slot.ended_cpu = cpu_;
        back_.push_back(&slot);
        if (!news_.load(std::memory_order_relaxed)) news_.store(true, std::memory_order_relaxed);
        return;
    }
    slot.ended_cpu = ::sched_getcpu();
    const sync::Lock lock{inbox_mutex_};
    inbox_.push_back(&slot);
    inbox_filled_.store(true, std::memory_order_release);
    news_.store(true, std::memory_order_release);
    // With the lock held: the thread, and this with it, may be gone right afterwards.
    if (asleep_) inbox_has_.notify_one();
}

void LoadThread::take_inbox() {
    if (!inbox_filled_.load(std::memory_order_acquire)) return;
    const sync::Lock lock{inbox_mutex_};
    inbox_filled_.store(false, std::memory_order_relaxed);
    back_.insert(back_.end(), inbox_.begin(), inbox_.end());
    inbox_.clear();
}

} // namespace viaduct::driver
