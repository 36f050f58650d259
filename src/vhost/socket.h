// SPDX-License-Identifier: Apache-2.0
//
// A connected vhost-user socket that gives and takes whole messages.
//
// Never blocks in the kernel but in poll.  Either a worker awaits (device end), or a thread waits up to a
// deadline (front end).  One reader and one writer at a time.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/task.h"
#include "vhost/assembler.h"

#include <chrono>
#include <optional>
#include <span>
#include <vector>

namespace viaduct::vhost {

using Deadline = std::chrono::steady_clock::time_point;

class MessageSocket {
public:
    explicit MessageSocket(Fd socket) noexcept : socket_(std::move(socket)) {}

    // On a worker.  nullopt: the peer has left, between messages or in the middle of one.
    // EPROTO: what came is no message.
    rt::Task<Result<std::optional<Message>>> receive();
    // EPIPE: the peer has left.
    rt::Task<Status> send(std::vector<std::byte> bytes);

    // On any other thread.  ETIMEDOUT: not all of it by the deadline; the stream is then of no more use.
    Result<std::optional<Message>> receive_until(Deadline deadline);
    Status send_until(std::span<const std::byte> bytes, std::span<const int> fds, Deadline deadline);

    // Both directions end; whoever waits sees that the peer has left.
    void shutdown() noexcept;

    // To look at, not to read or write.
    FdRef fd() const noexcept { return socket_; }

private:
    enum class Step { message, blocked, closed };
    // Takes what is there, up to one message, without waiting.
    Result<Step> read_some();
    // Sends what goes without waiting; the number of bytes, 0 when none goes now.
    Result<std::size_t> write_some(std::span<const std::byte> bytes, std::span<const int> fds);

    Fd socket_;
    MessageAssembler assembler_;
};

} // namespace viaduct::vhost
