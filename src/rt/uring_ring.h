// SPDX-License-Identifier: Apache-2.0
//
// Ring over io_uring.
#pragma once

#include "rt/ring.h"
#include "rt/watch_table.h"

#include <deque>
#include <liburing.h>

namespace viaduct::rt {

class UringRing final : public Ring {
public:
    // io_uring_setup's error where it is forbidden or missing.
    static Result<std::unique_ptr<Ring>> make();
    ~UringRing() override;

    void start(Operation& operation) override;
    void cancel(Operation& operation) override;
    Status watch(int fd, Watcher& watcher) override;
    void unwatch(int fd, Watcher& watcher) override;
    void submit() override;
    std::size_t reap() override;
    void wait(int limit_ms) override;

private:
    UringRing() = default;
    io_uring_sqe* sqe();
    void arm(WatchTable::Key key, int fd);
    void deliver(const io_uring_cqe& cqe);

    io_uring ring_{};
    bool open_ = false;
    WatchTable watches_;
};

} // namespace viaduct::rt
