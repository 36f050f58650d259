// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/worker_state.h"

#include "base/assert.h"

#include <mutex>
#include <vector>

namespace viaduct::passthrough {
namespace {

// Numbers of threads that have ended are given out again, and with them the states; `mutex` guards both
// fields.
struct Numbers {
    std::mutex mutex;
    std::vector<std::uint32_t> free;
    std::uint32_t next = 0;
};

Numbers& numbers() {
    static Numbers* const instance = new Numbers; // never destroyed: threads may outlive main
    return *instance;
}

struct ThreadNumber {
    std::uint32_t value;
    ThreadNumber() {
        Numbers& all = numbers();
        const std::scoped_lock lock{all.mutex};
        if (all.free.empty()) {
            value = all.next++;
        } else {
            value = all.free.back();
            all.free.pop_back();
        }
        ASSERT(value < WorkerStates::kThreadsMax);
    }
    ~ThreadNumber() {
        Numbers& all = numbers();
        const std::scoped_lock lock{all.mutex};
        all.free.push_back(value);
    }
};

} // namespace

std::uint32_t WorkerStates::thread_number() {
    thread_local const ThreadNumber number;
    return number.value;
}

WorkerState& WorkerStates::make(std::atomic<WorkerState*>& state) {
    auto* const made = new WorkerState{ring_operations_max_};
    made->call_ended_ticks = ticks();
    state.store(made, std::memory_order_release);
    return *made;
}

WorkerStates::~WorkerStates() {
    for (const auto& state : states_) delete state.load(std::memory_order_acquire);
}

std::uint64_t WorkerStates::calls(OpClass op, Place place) const noexcept {
    std::uint64_t sum = 0;
    for (const auto& state : states_)
        if (const WorkerState* const known = state.load(std::memory_order_acquire))
            sum += known->calls[static_cast<std::size_t>(op)][static_cast<std::size_t>(place)].get();
    return sum;
}

} // namespace viaduct::passthrough
