// SPDX-License-Identifier: Apache-2.0
//
// MountTable: the host mounts that a share has reached, and which classes of call may run on a worker there.
//
// Local file systems start on the inline path.  A class of call that was slow leaves it for a while.  Network
// and FUSE mounts never come onto it: having been quick so far does not keep their server from hanging now.
// Reading a mount's state is a plain load; it is written when something was slow, and by calls that already
// left the inline path.
#pragma once

#include "base/result.h"
#include "base/sync.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace viaduct::passthrough {

// Calls that are quick or slow together.
enum class OpClass : std::uint8_t { attr, lookup, change, open, close, read, write, list, xattr };
inline constexpr std::size_t kOpClasses = 9;

inline constexpr std::uint64_t kSlowNs = 2'000'000;
inline constexpr std::uint64_t kFastNs = 500'000;
inline constexpr std::uint32_t kFastCallsToReturn = 64;
inline constexpr std::uint64_t kAwayNs = 5'000'000'000;

struct Mount {
    std::uint64_t id = 0;
    bool remote = true;
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

    // The number of the mount that `fd` lies on.  Reads mountinfo for a new one and may wait for its server:
    // not on a worker.
    std::uint16_t resolve(int fd, std::uint64_t mount_id);

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
    // A call that ran elsewhere took that long.
    void ran_away(std::uint16_t number, OpClass op, std::uint64_t took_ns) noexcept;

private:
    static Mount::Class& of(Mount& mount, OpClass op) noexcept {
        return mount.classes[static_cast<std::size_t>(op)];
    }
    static bool away_is_over(Mount& mount, OpClass op, std::uint64_t away_until_ns) noexcept;

    std::array<Mount, kMountsMax> mounts_;
    // Mounts below this number are filled in; release-stored under the mutex.
    sync::Shared<std::uint16_t> count_{1};
    sync::Mutex mutex_;   // adding
    bool warned_ = false; // under the mutex
};

// Does a file system of that type answer from elsewhere?
bool is_remote_type(std::string_view type) noexcept;

std::uint64_t monotonic_ns() noexcept;

} // namespace viaduct::passthrough
