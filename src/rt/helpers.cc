// SPDX-License-Identifier: Apache-2.0
#include "rt/helpers.h"

#include "rt/thread.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <system_error>

namespace viaduct::rt {

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
            lock.unlock();
            finish(job);
        }
    }
}

void Helpers::finish(Job& job) {
    job.execute();
    if (job.origin != nullptr)
        job.origin->post(job);
    else
        job.deliver();
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
        lock.unlock();
        finish(*job);
        lock.lock();
    }
    --state->threads;
}

} // namespace viaduct::rt
