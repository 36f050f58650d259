// SPDX-License-Identifier: Apache-2.0
//
// Runs a Task on a worker and waits for it, for tests.
#pragma once

#include "rt/worker.h"

#include <future>
#include <optional>

namespace viaduct::test {

inline rt::Task<void> deliver(rt::Task<void> task, std::promise<void>& done) {
    co_await std::move(task);
    done.set_value();
}

// The task runs on `worker`; the calling thread sleeps until it has ended.
inline void run_on(rt::Worker& worker, rt::Task<void> task) {
    struct Start final : rt::Message {
        rt::Worker& worker;
        std::optional<rt::Task<void>> task;
        std::promise<void> done;
        explicit Start(rt::Worker& w, rt::Task<void> t) : worker(w), task(std::move(t)) {}
        void deliver() override { worker.gate().spawn(test::deliver(std::move(*task), done)); }
    };
    Start start{worker, std::move(task)};
    auto done = start.done.get_future();
    worker.post(start);
    done.wait();
}

} // namespace viaduct::test
