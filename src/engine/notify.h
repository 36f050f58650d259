// SPDX-License-Identifier: Apache-2.0
//
// Telling whoever started the process that it is ready: systemd, or the shell that waits for --daemon.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <optional>
#include <string_view>

namespace viaduct::engine {

// A line of sd_notify(3), "READY=1".  Nothing happens where NOTIFY_SOCKET is not set.
void notify_manager(std::string_view line) noexcept;

// The background half of a process.  Made before any thread.
class Background {
public:
    // Forks.  In the parent: the exit status, once the child has said it is ready or has ended.  In the
    // child: nothing, in a session of its own.
    static Outcome<std::optional<int>> enter(Background& made);

    // The parent ends with status 0; standard input and output are let go.  Nothing happens in a foreground
    // process.
    void ready() noexcept;

private:
    Fd parent_;
};

} // namespace viaduct::engine
