// SPDX-License-Identifier: Apache-2.0
//
// Runs one command in a throw-away virtual machine that has a vhost-user-fs share mounted.
//
// The machine is QEMU with a Debian cloud kernel, an initramfs made on the spot, and the share at /mnt, where
// the command runs.  Output and exit status come back over virtio-serial, byte for byte.  Nothing is left
// behind: what is temporary lies in one folder, and QEMU dies with the caller.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::guestvm {

enum class Accel { automatic, kvm, tcg };

// Exit statuses besides the command's own (signals: 128 + n).
inline constexpr int kStatusTimeout = 124;
inline constexpr int kStatusOurs = 125; // the machine failed, not the command

struct GuestOptions {
    std::vector<std::string> command;
    std::vector<std::string> environment; // NAME=VALUE
    std::string tag = "viaduct";
    unsigned queues = 0; // request queues; 0: as many as CPUs
    unsigned cpus = 2;
    unsigned memory_mb = 512;
    std::string kernel;    // file, or folder with vmlinux or vmlinuz; empty: searched for
    std::string qemu;      // program; empty: qemu-system-x86_64
    std::string root_disk; // ext4 image: the command runs in it (read-only; /tmp and /run are memory)
    Accel accel = Accel::automatic;
    bool packed = false;       // packed virtqueues; needs a QEMU whose vhost-user-fs knows them (10)
    bool console = false;      // kernel messages on stderr
    bool allow_reboot = false; // a reboot of the guest starts the command again
    bool pass_stdin = false;
    std::chrono::seconds timeout{0}; // for all of it; 0: none

    // Daemon behind the socket; when it ends early, so does the guest.
    std::optional<FdRef> daemon_pidfd;

    // For tests.
    int stdin_fd = 0;
    int stdout_fd = 1;
    int stderr_fd = 2;
    std::string kvm_device = "/dev/kvm";
    std::chrono::milliseconds kvm_hello_limit = std::chrono::seconds{10};
    std::chrono::milliseconds boot_limit = std::chrono::seconds{180};
};

// A wrong value, in one sentence; status 2.
Outcome<void> check(const GuestOptions& options);

// The command's exit status.  A failure carries kStatusTimeout, kStatusOurs, or 128 + n when signal n ended
// the run.  SIGINT, SIGTERM and SIGHUP are taken by the run while it lasts.  A daemon must listen on
// `vhost_socket`; with Accel::automatic it may be connected to twice.
Outcome<int> run_guest(const GuestOptions& options, const std::string& vhost_socket);

} // namespace viaduct::guestvm
