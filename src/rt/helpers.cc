// SPDX-License-Identifier: Apache-2.0
#include "rt/helpers.h"

#include "rt/thread.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <sched.h>
#include <system_error>
#include <thread>
#include <utility>

namespace viaduct::rt {
namespace {

using namespace std::chrono_literals;

// Ignored by those who do not expect it, so that one which goes astray does no harm.
constexpr int kInterrupt = SIGURG;
// Between one signal and the next: a call that is about to block is met soon, one that no signal ends costs
// little.
constexpr auto kFirstPause = 1ms;
constexpr auto kLongestPause = 100ms;

thread_local const std::atomic<bool>* cancelled_flag = nullptr;

// Without SA_RESTART: system calls end with EINTR.
void install_handler() {
    static const bool once = [] {
        struct sigaction action{};
        action.sa_handler = [](int) {};
        ::sigaction(kInterrupt, &action, nullptr);
        return true;
    }();
    (void)once;
}

} // namespace

// `mutex` guards everything here.
struct Helpers::State {
    std::mutex mutex;
    std::condition_variable work;
    Job* first = nullptr;
    Job* last = nullptr;
    std::uint32_t queued = 0;
    std::uint32_t idle = 0; // threads waiting for work
    std::uint32_t threads = 0;
    std::uint32_t threads_max = 1;
    bool stopping = false;
    Job* interrupted = nullptr; // under way and cancelled
    bool interrupting = false;  // there is a thread that sends them signals

    void forget(Job& job) noexcept {
        for (Job** place = &interrupted; *place != nullptr; place = &(*place)->next_job_) {
            if (*place != &job) continue;
            *place = job.next_job_;
            return;
        }
    }
};

Helpers::Helpers(std::uint32_t threads_max) : state_(std::make_shared<State>()) {
    state_->threads_max = std::max<std::uint32_t>(threads_max, 1);
}

Helpers::~Helpers() {
    const std::scoped_lock lock{state_->mutex};
    ASSERT(state_->first == nullptr);
    state_->stopping = true;
    state_->work.notify_all();
}

void Helpers::start(Job& job) {
    std::unique_lock lock{state_->mutex};
    job.next_job_ = nullptr;
    job.queued_ = true;
    (state_->last != nullptr ? state_->last->next_job_ : state_->first) = &job;
    state_->last = &job;
    ++state_->queued;
    if (state_->idle >= state_->queued) {
        state_->work.notify_one();
    } else if (state_->threads < state_->threads_max) {
        ++state_->threads;
        try {
            start_thread("helper", [state = state_] { serve(state); }).detach();
        } catch (const std::system_error&) {
            // No more threads for this process or its cgroup.  The ones there are do the work; the very first
            // is done without: late is better than never.
            if (--state_->threads > 0) return;
            state_->first = state_->last = nullptr;
            state_->queued = 0;
            job.queued_ = false;
            lock.unlock();
            execute(job);
            deliver(job);
        }
    }
}

void Helpers::execute(Job& job) {
    job.executed_ = true;
    cancelled_flag = &job.cancelled_;
    job.execute();
    cancelled_flag = nullptr;
}

// The job may be gone afterwards.
void Helpers::deliver(Job& job) {
    if (job.origin != nullptr)
        job.origin->post(job);
    else
        job.deliver();
}

bool Helpers::cancelled_here() noexcept {
    return cancelled_flag != nullptr && cancelled_flag->load(std::memory_order_relaxed);
}

void Helpers::cancel(Job& job) {
    std::unique_lock lock{state_->mutex};
    if (job.cancelled_.exchange(true, std::memory_order_relaxed)) return;
    if (job.queued_) {
        Job* before = nullptr;
        for (Job* one = state_->first; one != &job; one = one->next_job_) before = one;
        (before != nullptr ? before->next_job_ : state_->first) = job.next_job_;
        if (state_->last == &job) state_->last = before;
        --state_->queued;
        job.queued_ = false;
        lock.unlock();
        deliver(job);
        return;
    }
    if (!job.running_) return; // its message is on the way
    install_handler();
    job.interrupted_ = true;
    job.next_job_ = std::exchange(state_->interrupted, &job);
    if (std::exchange(state_->interrupting, true)) {
        ::pthread_kill(job.thread_, kInterrupt); // the others have their turn with the next round
        return;
    }
    try {
        start_thread("interrupter", [state = state_] { interrupt_jobs(state); }).detach();
    } catch (const std::system_error&) {
        state_->interrupting = false; // once is better than never
        ::pthread_kill(job.thread_, kInterrupt);
    }
}

// A job leaves the list, under the mutex, before its thread does anything else: no signal meets another call.
void Helpers::interrupt_jobs(const std::shared_ptr<State>& state) {
    std::unique_lock lock{state->mutex};
    for (auto pause = std::chrono::milliseconds{kFirstPause}; state->interrupted != nullptr;
         pause = std::min(pause * 2, std::chrono::milliseconds{kLongestPause})) {
        for (const Job* job = state->interrupted; job != nullptr; job = job->next_job_)
            ::pthread_kill(job->thread_, kInterrupt);
        lock.unlock();
        std::this_thread::sleep_for(pause);
        lock.lock();
    }
    state->interrupting = false;
}

void Helpers::serve(const std::shared_ptr<State>& state) {
    std::unique_lock lock{state->mutex};
    while (true) {
        while (state->first == nullptr && !state->stopping) {
            ++state->idle;
            state->work.wait(lock);
            --state->idle;
        }
        if (state->first == nullptr) break;
        Job* const job = state->first;
        state->first = job->next_job_;
        if (state->first == nullptr) state->last = nullptr;
        --state->queued;
        job->queued_ = false;
        job->thread_ = ::pthread_self();
        job->running_ = true;
        lock.unlock();
        execute(*job);
        lock.lock();
        job->running_ = false;
        const bool interrupted = job->interrupted_;
        if (interrupted) state->forget(*job);
        lock.unlock();
        // A signal that was sent and has not been taken yet is, on the way back from any system call.
        if (interrupted) ::sched_yield();
        deliver(*job);
        lock.lock();
    }
    --state->threads;
}

} // namespace viaduct::rt
