// SPDX-License-Identifier: Apache-2.0
//
// What every serving process needs of the system: its limit of files, and signals as events.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/worker.h"

#include <array>
#include <cstdint>
#include <functional>

namespace viaduct::engine {

// RLIMIT_NOFILE; 0: the hard limit.
Outcome<void> set_file_limit(std::uint64_t wanted);

// Signals and the SIGBUS guard's events, on the control thread.
class Signals {
public:
    struct Handlers {
        std::function<void()> stop;         // SIGTERM, SIGINT or SIGHUP, the first time
        std::function<void()> stop_at_once; // ... again; does not return
        std::function<void()> log_stats;    // SIGUSR1
        std::function<void()> memory_lost;  // a page of a mapped file is gone; may be empty
    };

    // Before any thread, so that all inherit the mask.
    static Outcome<Signals> make();

    // Begins to call `handlers`, which live until stop() has taken effect.
    void watch(rt::Worker& control, const Handlers& handlers);
    void stop(rt::Worker& control);
    // The signal that came first; 0: none.
    int ended_by() const noexcept { return ended_by_; }

private:
    rt::Task<void> watch_signals(rt::Worker& control, const Handlers& handlers);
    rt::Task<void> watch_memory(rt::Worker& control, const Handlers& handlers);
    // false: stop() was called.
    rt::Task<bool> readable(rt::Worker& control, FdRef fd, rt::Operation*& waiting);

    Fd signals_;
    Fd bus_;
    std::array<rt::Operation*, 2> waiting_{};
    bool stopped_ = false;
    int ended_by_ = 0;
};

} // namespace viaduct::engine
