// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/credentials.h"

#include <linux/capability.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// The calling thread's capabilities when it first switched; nothing changes them later but the code below.
struct ThreadCapabilities {
    __user_cap_data_struct data[2] = {};
    bool known = false;
};

ThreadCapabilities& thread_capabilities() noexcept {
    thread_local ThreadCapabilities capabilities;
    if (!capabilities.known) {
        __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
        ::syscall(SYS_capget, &header, capabilities.data);
        capabilities.known = true;
    }
    return capabilities;
}

constexpr std::uint32_t bit(int capability) {
    return 1U << capability;
}

bool has(const ThreadCapabilities& capabilities, int capability) {
    return (capabilities.data[0].effective & bit(capability)) != 0;
}

// The effective set is what it was, with or without CAP_FSETID.
void set_effective(bool with_fsetid) noexcept {
    const ThreadCapabilities& own = thread_capabilities();
    __user_cap_data_struct data[2] = {own.data[0], own.data[1]};
    if (!with_fsetid) data[0].effective &= ~bit(CAP_FSETID);
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    ::syscall(SYS_capset, &header, data);
}

// setfsuid and setfsgid report no failure; asking again with an id that cannot be tells.
bool set_fs_id(long call, std::uint32_t id) noexcept {
    ::syscall(call, id);
    return static_cast<std::uint32_t>(::syscall(call, ~0U)) == id;
}

} // namespace

Credentials::Credentials() : uid_(::geteuid()), gid_(::getegid()) {
    const ThreadCapabilities& capabilities = thread_capabilities();
    can_switch_ = has(capabilities, CAP_SETUID) && has(capabilities, CAP_SETGID);
}

Credentials::Switched::Switched(const Credentials& credentials, const fs::Caller& caller,
                                std::uint32_t umask) noexcept
    : own(credentials) {
    if (umask != 0) {
        masked = true;
        umask_before = ::umask(umask); // this thread's alone, see rt/thread.h
    }
    if (!own.can_switch_) return;
    // Read before the first switch ever on this thread, which may take some of them.
    thread_capabilities();
    if (caller.gid != own.gid_) {
        group = true;
        complete = set_fs_id(SYS_setfsgid, caller.gid);
    }
    if (complete && caller.uid != own.uid_) {
        user = true;
        complete = set_fs_id(SYS_setfsuid, caller.uid);
        // Also brings back what leaving uid 0 may have taken.
        set_effective(false);
    }
}

Credentials::Switched::~Switched() {
    if (user) {
        ::syscall(SYS_setfsuid, own.uid_);
        set_effective(true);
    }
    if (group) ::syscall(SYS_setfsgid, own.gid_);
    if (masked) ::umask(umask_before);
}

Credentials::Dropped::Dropped() noexcept {
    if (has(thread_capabilities(), CAP_FSETID)) set_effective(false);
}

Credentials::Dropped::~Dropped() {
    const int error = errno;
    if (has(thread_capabilities(), CAP_FSETID)) set_effective(true);
    errno = error;
}

} // namespace viaduct::passthrough
