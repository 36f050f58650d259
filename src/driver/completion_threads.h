// SPDX-License-Identifier: Apache-2.0
//
// A thread for each of some queues, which waits for its completions, and the CPUs that it may run on.
//
// The counterpart of a queue's interrupt and of its affinity.  The CPUs are never outside of those that the
// thread that made this was allowed; what cannot be bound runs anywhere among those, with a line in the log.
#pragma once

#include "driver/request_queue.h"
#include "topology/cpu_set.h"

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace viaduct::driver {

class CompletionThreads {
public:
    // Nobody else serves the queues, which outlive this.
    explicit CompletionThreads(const std::vector<RequestQueue*>& queues);
    ~CompletionThreads();

    std::size_t size() const noexcept { return threads_.size(); }
    // Binds the thread of the queue at `index` (of the constructor's list).  An empty set: clear().
    void bind(std::size_t index, const topology::CpuSet& cpus);
    // May run on every CPU that was inherited.
    void clear(std::size_t index);

    pid_t thread_id(std::size_t index) const noexcept { return threads_[index]->id; }

private:
    struct Thread {
        RequestQueue* queue = nullptr;
        std::atomic<pid_t> id{0}; // set by the thread itself
        std::thread thread;
    };
    Status set(std::size_t index, const topology::CpuSet& cpus);

    const topology::CpuSet inherited_;
    std::atomic<bool> stop_{false};
    std::vector<std::unique_ptr<Thread>> threads_;
};

} // namespace viaduct::driver
