// SPDX-License-Identifier: Apache-2.0
//
// Ring over epoll, for machines where io_uring is forbidden.
//
// Descriptors are watched by epoll; file operations that may block run on helper threads and come back as
// messages to the worker.
#pragma once

#include "base/fd.h"
#include "rt/helpers.h"
#include "rt/ring.h"
#include "rt/watch_table.h"

#include <map>
#include <vector>

namespace viaduct::rt {

class PollRing final : public Ring {
public:
    static Result<std::unique_ptr<Ring>> make();

    void start(Operation& operation) override;
    // File operations on a thread are interrupted; those that no signal ends go on.
    void cancel(Operation& operation) override;
    Status watch(int fd, Watcher& watcher) override;
    void unwatch(int fd, Watcher& watcher) override;
    void submit() override {}
    std::size_t reap() override;
    void wait(int limit_ms) override;

private:
    PollRing();
    void start_poll(Operation& operation);
    void finish_poll(Operation& operation, int result);
    void take_events(int timeout_ms);
    int wait_ms(int limit_ms) const;

    Fd epoll_;
    WatchTable watches_;
    std::map<Operation*, Fd> polls_; // with a duplicate of the descriptor: epoll knows each number once
    std::multimap<std::uint64_t, Operation*> timers_; // by deadline, monotonic nanoseconds
    struct Done {
        Operation* operation;
        int result;
    };
    std::vector<Done> done_;
    std::vector<WatchTable::Key> ready_;
    Helpers threads_;
};

} // namespace viaduct::rt
