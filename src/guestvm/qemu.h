// SPDX-License-Identifier: Apache-2.0
//
// QEMU's command line for a guest.  Pure: options in, argv out.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>
#include <vector>

namespace viaduct::guestvm {

// The virtio-serial ports, in the order of QemuPlan::port_fds.
inline constexpr const char* kPortNames[] = {"viaduct.control", "viaduct.stdin", "viaduct.stdout",
                                             "viaduct.stderr"};

struct QemuPlan {
    std::string program;
    unsigned version_major = 0;
    bool kvm = false;
    unsigned cpus = 1;
    unsigned memory_mb = 512;
    unsigned request_queues = 1;
    bool packed = false;
    bool exits_on_reboot = true;
    std::string tag;
    std::string vhost_socket;
    std::string root_disk; // empty: none
    std::string kernel;
    std::string initrd;
    std::string kernel_command_line;
    int console_fd = -1;
    int port_fds[4] = {-1, -1, -1, -1}; // connected stream sockets
};

std::vector<std::string> qemu_command(const QemuPlan& plan);

// `verbose`: the kernel says on the console what it does.
std::string kernel_command_line(bool verbose);

// 7 for "QEMU emulator version 7.2.22 (Debian ...)"; 0 when it says something else.
unsigned qemu_version_major(std::string_view version_output);

} // namespace viaduct::guestvm
