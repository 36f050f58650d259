// SPDX-License-Identifier: Apache-2.0
//
// A vhost-user daemon run as a child for the length of a guest.
#pragma once

#include "guestvm/process.h"

#include <chrono>
#include <string>
#include <vector>

namespace viaduct::guestvm {

class DaemonProcess {
public:
    // Starts `argv` (stdout and stderr are the caller's stderr) and waits until somebody listens on `socket`.
    // Nobody connects for that: a daemon that serves one connection would be used up.
    static Outcome<DaemonProcess> start(const std::vector<std::string>& argv, const std::string& socket,
                                        std::chrono::milliseconds limit = std::chrono::seconds{10});

    FdRef pidfd() const noexcept { return child_.pidfd(); }
    pid_t pid() const noexcept { return child_.pid(); }
    // Waits `grace` for it to leave by itself (some do when the front end goes), then ends it; its exit
    // status.
    int end(std::chrono::milliseconds grace = std::chrono::seconds{5});
    Child& child() noexcept { return child_; }

private:
    explicit DaemonProcess(Child child) noexcept : child_(std::move(child)) {}
    Child child_;
};

// Whether the socket at `path` has a listener, as /proc/net/unix (its text is `table`) tells.  A path that is
// not in it may be of a socket that was renamed into place, or of one that bind() has yet to enter there: it
// has a listener when one of the daemon's own sockets (`inodes`) listens.
bool listens(const std::string& table, const std::string& path, const std::vector<std::string>& inodes);
// The inode numbers of the sockets that a process has open.
std::vector<std::string> socket_inodes(pid_t pid);

} // namespace viaduct::guestvm
