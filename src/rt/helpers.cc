// SPDX-License-Identifier: Apache-2.0
#include "rt/helpers.h"

#include "rt/thread.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

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
    const std::scoped_lock lock{state_->mutex};
    job.next_job_ = nullptr;
    (state_->last != nullptr ? state_->last->next_job_ : state_->first) = &job;
    state_->last = &job;
    ++state_->queued;
    if (state_->idle >= state_->queued) {
        state_->work.notify_one();
    } else if (state_->threads < state_->threads_max) {
        ++state_->threads;
        start_thread("helper", [state = state_] { serve(state); }).detach();
    }
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
        job->execute();
        job->origin->post(*job);
        lock.lock();
    }
    --state->threads;
}

std::uint32_t Helpers::busy() const noexcept {
    const std::scoped_lock lock{state_->mutex};
    return state_->threads - state_->idle;
}

std::uint32_t Helpers::waiting() const noexcept {
    const std::scoped_lock lock{state_->mutex};
    return state_->queued;
}

} // namespace viaduct::rt
