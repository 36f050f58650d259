// SPDX-License-Identifier: Apache-2.0
//
// MountTable: the host mounts that a share has reached, and which classes of call may run on a worker there.
//
// Local file systems start on the inline path.  A class of call that was slow leaves it for a while.  Network
// and FUSE mounts never come onto it: having been quick so far does not keep their server from hanging now.
// Reading a mount's state is a plain load; it is written when something was slow, and by calls that already
// left the inline path.
#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "base/sync.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace viaduct::passthrough {

// Calls that are quick or slow together.  `whole`: calls on a whole file or file system (STATFS, SYNCFS,
// COPY_FILE_RANGE), which are never made on a worker and whose time says nothing about others.
enum class OpClass : std::uint8_t { attr, lookup, change, open, close, read, write, list, xattr, whole };
inline constexpr std::size_t kOpClasses = 10;

inline constexpr std::uint64_t kSlowNs = 2'000'000;
inline constexpr std::uint64_t kFastNs = 500'000;
inline constexpr std::uint32_t kFastCallsToReturn = 64;
inline constexpr std::uint64_t kAwayNs = 5'000'000'000;

struct Mount {
    std::uint64_t id = 0;
    std::uint32_t device = 0; // of its root
    bool remote = true;
    bool stacked = false; // on other file systems, which may be remote
    sync::Shared<bool>
        nowait_refused; // RWF_NOWAIT gives EOPNOTSUPP here: data comes from memory or not at all
    struct Class {
        sync::Shared<std::uint64_t> away_until_ns; // 0: inline
        sync::Shared<std::uint32_t> fast_calls;    // in a row, while away
    };
    std::array<Class, kOpClasses> classes;
};

class MountTable {
public:
    static constexpr std::uint16_t kMountsMax = 256;
    // Stands for every mount that found no room, and counts as remote.
    static constexpr std::uint16_t kOverflow = 0;

    // A mount that has yet to be reached, behind a mount point.  Counts as remote.
    static constexpr std::uint16_t kUnknown = 1;

    // The number of the mount that `fd` lies on.  Reads mountinfo for a new one and may wait for its server:
    // not on a worker.
    // `device` is that of the mount's root, where `fd` stands.  Kernels before 6.8 use a mount id again once
    // its mount is gone; with another device number it is taken for a new mount, which gets a place of its
    // own, as nodes may still lie on the old one.  An id that comes back with the same device number is not
    // told apart.
    std::uint16_t resolve(int fd, std::uint64_t mount_id, std::uint32_t device);

    Mount& at(std::uint16_t number) noexcept { return mounts_[number]; }

    bool may_run_inline(std::uint16_t number, OpClass op) noexcept {
        Mount& mount = mounts_[number];
        if (mount.remote) [[unlikely]]
            return false;
        const std::uint64_t away = of(mount, op).away_until_ns.load(std::memory_order_relaxed);
        return away == 0 || away_is_over(mount, op, away);
    }
    // A call that ran inline slept for long.
    void was_slow(std::uint16_t number, OpClass op) noexcept;
    // A call that ran elsewhere took that long by the clock, and slept in it or may not have (ring operations
    // do not tell).  Sends nothing away; it decides when a class that is away comes back.
    struct Took {
        std::uint64_t ns = 0;
        bool slept = false;
    };
    void ran_away(std::uint16_t number, OpClass op, Took took) noexcept;

private:
    static Mount::Class& of(Mount& mount, OpClass op) noexcept {
        return mount.classes[static_cast<std::size_t>(op)];
    }
    static bool away_is_over(Mount& mount, OpClass op, std::uint64_t away_until_ns) noexcept;

    std::array<Mount, kMountsMax> mounts_;
    // Mounts below this number are filled in; release-stored under the mutex.
    sync::Shared<std::uint16_t> count_{2};
    sync::Mutex mutex_;   // adding
    bool warned_ = false; // under the mutex
};

// Does a file system of that type answer from elsewhere?
bool is_remote_type(std::string_view type) noexcept;

// How often the calling thread gave up the processor by itself.
std::uint64_t voluntary_switches() noexcept;

} // namespace viaduct::passthrough
