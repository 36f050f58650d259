// SPDX-License-Identifier: Apache-2.0
//
// Connection to the kernel's FUSE: the readers of one mount, one for each worker.
//
// The first reader is woken by requests; the others are asked when requests queue up, because several that
// are woken by each request take turns at the price of the wake-ups.
//
// Lives on the control thread and reaches its readers by calls to the workers that own them.
#pragma once

#include "transport/fuse_dev/reader.h"

#include <chrono>
#include <memory>
#include <span>
#include <vector>

namespace viaduct::transport {

class FuseConnection {
public:
    // `device`: /dev/fuse, of a mount that has been made, not blocking.  `workers` (at least one) and `sink`
    // outlive the connection.  Where the kernel gives no further descriptor of the connection, the first
    // worker serves alone.
    FuseConnection(Fd device, std::span<rt::Worker* const> workers, fuse::RequestSink& sink,
                   const ReaderOptions& options = {});

    rt::Task<Status> start();
    // Waits until the kernel ends the connection, or stop().
    rt::Task<void> ended();
    // Reads no more; requests under way go on.
    rt::Task<void> stop();
    // Waits until nothing is in flight, at most so long for each worker.  false: something still is.
    rt::Task<bool> drain(std::chrono::nanoseconds timeout);
    // The same for requests that write back what the kernel had cached, and how many there have been.
    struct WriteBacks {
        bool drained = true;
        std::uint64_t count = 0;
        std::uint64_t failed = 0; // answered with an error: that data is lost
    };
    rt::Task<WriteBacks> drain_write_backs(std::chrono::nanoseconds timeout);
    // Calls off the requests that wait.
    rt::Task<void> cancel();
    // Closes every descriptor: the kernel aborts what is left of the connection.
    rt::Task<void> close();

    const std::vector<std::unique_ptr<Reader>>& readers() const noexcept { return readers_; }

private:
    static rt::Task<void> wait_for_end(Reader& reader);

    std::vector<std::unique_ptr<Reader>> readers_;
};

} // namespace viaduct::transport
