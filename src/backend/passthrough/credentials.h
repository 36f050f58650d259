// SPDX-License-Identifier: Apache-2.0
//
// Making one system call on behalf of a client's user.
//
// The switch is the calling thread's (raw system calls; libc's change every thread) and encloses exactly one
// plain system call: never an await, never something that a ring carries out later.
#pragma once

#include "fs/types.h"

#include <cerrno>
#include <cstdint>

namespace viaduct::passthrough {

class Credentials {
public:
    // The process's; after it has given up what it gives up.
    Credentials();

    // What is made as somebody.
    struct Making {
        std::uint32_t umask = 0;
        std::uint32_t mode = 0; // asked for; 0 for symbolic links
    };

    // Calls `function` with the caller's file-system ids, umask and the one other group that is known; new
    // objects then belong to the caller.
    // Access is not checked again, the client's kernel has done so: capabilities stay, but for CAP_FSETID
    // where the mode has the set-group-id bit, so that it is dropped as it would be for that user. `function`
    // makes one system call and returns what it returned; the result is that or -errno. -EOVERFLOW: these ids
    // do not exist in our user namespace. The process ends when its own ids do not come back, or when ids
    // that this thread has had before were not taken: what it would make from then on, or has just made,
    // belongs to somebody else.
    template <class Function>
    int as(const fs::Caller& caller, const Making& making, Function&& function) const noexcept {
        if (making.umask == 0 && (!can_switch_ || (caller.uid == uid_ && caller.gid == gid_)))
            return result(function());
        const Switched switched{*this, caller, making};
        if (!switched.complete) return -EOVERFLOW;
        return result(function());
    }

    // A change that costs a file its set-id bits, where `wanted`.
    struct Dropping {
        bool wanted = false;
        std::uint32_t gid =
            0; // of the caller: whoever is of the file's group keeps a bit that is no execution
    };

    // Calls `function` without CAP_FSETID and with the caller's group: a write then drops set-id bits as one
    // of the caller's would, whoever we are.
    template <class Function> auto dropping(const Dropping& how, Function&& function) const noexcept {
        if (!how.wanted) return function();
        const Dropped dropped{*this, how.gid};
        return function();
    }

private:
    // errno is read here, before the switch back overwrites it.
    static int result(int value) noexcept { return value < 0 ? -errno : value; }

    struct Switched {
        Switched(const Credentials& own, const fs::Caller& caller, const Making& making) noexcept;
        ~Switched();
        const Credentials& own;
        bool group = false;
        bool user = false;
        bool capabilities = false;
        bool masked = false;
        bool supplementary = false;
        bool complete = true;
        std::uint32_t gid = 0; // in force, where `group` is set
        std::uint32_t uid = 0; // in force, where `user` is set
        std::uint32_t umask_before = 0;
    };
    // Keeps errno.
    struct Dropped {
        Dropped(const Credentials& own, std::uint32_t caller_gid) noexcept;
        ~Dropped();
        const Credentials& own;
        bool capability = false;
        bool group = false;
        std::uint32_t gid = 0; // in force, where `group` is set
    };

    bool can_switch_;
    std::uint32_t uid_;
    std::uint32_t gid_;
};

} // namespace viaduct::passthrough
