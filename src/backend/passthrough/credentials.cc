// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/credentials.h"

#include "base/assert.h"

#include <array>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// Ids that the calling thread has taken before.  One that could be taken can be taken again, as the map of a
// user namespace is written once.
class TakenIds {
public:
    bool has(std::uint32_t id) const noexcept { return places_[id % kPlaces] == std::uint64_t{id} + 1; }
    void add(std::uint32_t id) noexcept { places_[id % kPlaces] = std::uint64_t{id} + 1; }

private:
    static constexpr std::size_t kPlaces = 16;
    std::array<std::uint64_t, kPlaces> places_{}; // the id and 1; 0: none
};

// The calling thread when it first switched; nothing changes it later but the code below.
struct ThreadCapabilities {
    __user_cap_data_struct data[2] = {};
    bool known = false;
    bool follow_user = true; // the kernel takes and gives some as the user changes
    bool groupless = false;  // no supplementary groups (rt/thread.h)
    TakenIds users;
    TakenIds groups;
};

ThreadCapabilities& thread_capabilities() noexcept {
    thread_local ThreadCapabilities capabilities;
    if (!capabilities.known) {
        __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
        ::syscall(SYS_capget, &header, capabilities.data);
        const int bits = ::prctl(PR_GET_SECUREBITS);
        capabilities.follow_user = bits < 0 || (bits & SECBIT_NO_SETUID_FIXUP) == 0;
        capabilities.groupless = ::syscall(SYS_getgroups, 0, nullptr) == 0;
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

// setfsuid and setfsgid report no failure: they return the id that was in force before.  Asked with an id
// that cannot be, they change nothing.
std::uint32_t fs_id(long call, std::uint32_t id = ~0U) noexcept {
    return static_cast<std::uint32_t>(::syscall(call, id));
}

// false: there is no such id.  For one that was taken before give_back() sees it, from what it is told
// anyway.
bool take(long call, std::uint32_t id, TakenIds& taken) noexcept {
    fs_id(call, id);
    if (taken.has(id)) return true;
    if (fs_id(call) != id) return false;
    taken.add(id);
    return true;
}

// Memory of the kernel may be short in the cgroup, and then ids stay as they were.
void give_back(long call, std::uint32_t id, std::uint32_t own) noexcept {
    ASSERT(fs_id(call, own) == id);
    ASSERT(fs_id(call) == own);
}

} // namespace

Credentials::Credentials() : uid_(::geteuid()), gid_(::getegid()) {
    const ThreadCapabilities& capabilities = thread_capabilities();
    can_switch_ = has(capabilities, CAP_SETUID) && has(capabilities, CAP_SETGID);
}

Credentials::Switched::Switched(const Credentials& credentials, const fs::Caller& caller,
                                const Making& making) noexcept
    : own(credentials) {
    if (making.umask != 0) {
        masked = true;
        umask_before = ::umask(making.umask); // this thread's alone, see rt/thread.h
    }
    if (!own.can_switch_) return;
    // Read before the first switch ever on this thread, which may take some of them.
    ThreadCapabilities& thread = thread_capabilities();
    if (caller.gid != own.gid_) {
        group = true;
        complete = take(SYS_setfsgid, caller.gid, thread.groups);
        gid = complete ? caller.gid : own.gid_;
    }
    if (complete && caller.uid != own.uid_) {
        user = true;
        complete = take(SYS_setfsuid, caller.uid, thread.users);
        uid = complete ? caller.uid : own.uid_;
        if (complete && caller.supplementary && thread.groupless)
            supplementary = ::syscall(SYS_setgroups, 1, &*caller.supplementary) == 0;
        // Brings back what leaving uid 0 has taken.  CAP_FSETID matters to what has the set-group-id bit
        // alone (mode_strip_sgid() in the kernel).
        capabilities = thread.follow_user || (making.mode & S_ISGID) != 0;
        if (capabilities) set_effective((making.mode & S_ISGID) == 0);
    }
}

Credentials::Switched::~Switched() {
    if (supplementary) ASSERT(::syscall(SYS_setgroups, 0, nullptr) == 0);
    if (user) give_back(SYS_setfsuid, uid, own.uid_);
    if (capabilities) set_effective(true);
    if (group) give_back(SYS_setfsgid, gid, own.gid_);
    if (masked) ::umask(umask_before);
}

Credentials::Dropped::Dropped(const Credentials& credentials, std::uint32_t caller_gid) noexcept
    : own(credentials) {
    ThreadCapabilities& thread = thread_capabilities();
    // A group that does not exist here is no file's.
    if (own.can_switch_ && caller_gid != own.gid_) {
        group = true;
        gid = take(SYS_setfsgid, caller_gid, thread.groups) ? caller_gid : own.gid_;
    }
    capability = has(thread, CAP_FSETID);
    if (capability) set_effective(false);
}

Credentials::Dropped::~Dropped() {
    const int error = errno;
    if (capability) set_effective(true);
    if (group) give_back(SYS_setfsgid, gid, own.gid_);
    errno = error;
}

} // namespace viaduct::passthrough
