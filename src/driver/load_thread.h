// SPDX-License-Identifier: Apache-2.0
//
// One thread of a load: keeps its slots outstanding on its queues.
#pragma once

#include "base/sync.h"
#include "driver/load.h"
#include "driver/load_slot.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace viaduct::driver {

class LoadThread {
public:
    // On the thread itself.  `slots` outlive it.
    LoadThread(Load& load, std::uint32_t number, std::span<const std::unique_ptr<LoadSlot>> slots);

    // Until the limit is reached and everything has come back.
    LoadResult run(const LoadLimit& limit);
    // Any thread that polls one of the queues, or finds the device dead.
    void came_back(LoadSlot& slot);

private:
    struct OnQueue {
        RequestQueue* queue = nullptr;
        StagedDispatch* staged = nullptr; // in between, if there is one
        std::vector<Request*> batch;      // slots to be sent
    };

    void begin_all();
    void begin(LoadSlot& slot);
    bool sweep();
    void advance(LoadSlot& slot);
    void send_all();
    void send(OnQueue& on_queue);
    void take_inbox();
    void look_at_cpu();
    void idle(std::uint32_t times);
    bool may_begin();
    void add_queue(RequestQueue& queue);
    void put(LoadSlot& slot); // on a batch
    OnQueue& of(const RequestQueue& queue);

    Load& load_;
    const std::uint32_t number_;
    std::span<const std::unique_ptr<LoadSlot>> slots_;
    std::vector<OnQueue> queues_;
    OnQueue* visiting_ = nullptr;   // whose answers are being looked at
    std::vector<OnQueue*> to_send_; // queues with a batch
    std::vector<LoadSlot*> back_;   // have come back on this thread
    LoadResult result_;
    std::uint64_t begun_ = 0;
    std::uint64_t outstanding_ = 0;
    std::uint64_t begun_max_ = UINT64_MAX;
    Deadline end_ = Deadline::max();
    Deadline now_{}; // when something was last found, or looked for
    int cpu_ = -1;   // on which that was
    bool over_ = false;

    // Something has come back since the sweep before began: on this thread, or on another, where this one may
    // be about to sleep on the queue.
    std::atomic<bool> news_{false};

    // What came back on other threads.
    std::atomic<bool> inbox_filled_{false};
    sync::Mutex inbox_mutex_; // guards what follows
    std::condition_variable_any inbox_has_;
    std::vector<LoadSlot*> inbox_;
    bool asleep_ = false; // on inbox_has_
};

} // namespace viaduct::driver
