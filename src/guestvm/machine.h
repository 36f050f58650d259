// SPDX-License-Identifier: Apache-2.0
//
// One QEMU run: starts it, carries the command's streams, and says how it ended.
//
// A loop around poll() on QEMU's pidfd, its sockets, a timer and signals; nothing in it blocks but writes to
// the caller's own files.
#pragma once

#include "guestvm/guest.h"
#include "guestvm/qemu.h"

#include <csignal>
#include <string>

namespace viaduct::guestvm {

// SIGINT, SIGTERM, SIGHUP as a descriptor, SIGPIPE blocked, as long as it lives.
class SignalGuard {
public:
    SignalGuard();
    ~SignalGuard();
    SignalGuard(const SignalGuard&) = delete;
    SignalGuard& operator=(const SignalGuard&) = delete;
    FdRef fd() const noexcept { return fd_; }

private:
    sigset_t previous_;
    Fd fd_;
};

struct MachineEnd {
    enum class Kind { exited, failed, no_kvm };
    Kind kind = Kind::failed;
    int status = kStatusOurs; // the command's, or the one that goes with `sentence`
    std::string sentence;
};

struct MachineLimits {
    std::chrono::steady_clock::time_point deadline; // of the whole run
    std::chrono::milliseconds hello_limit;          // until /init speaks
    bool may_fall_back = false;                     // without hello: Kind::no_kvm
};

// `plan` without descriptors; `trailer` is what /init ends the streams with.
MachineEnd run_machine(QemuPlan plan, const GuestOptions& options, const std::string& trailer,
                       const MachineLimits& limits, const SignalGuard& signals);

} // namespace viaduct::guestvm
