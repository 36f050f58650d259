// SPDX-License-Identifier: Apache-2.0
//
// LockList: who holds which range of one file.  Pure; one kind of lock.
#pragma once

#include "fs/locks.h"

#include <cstddef>
#include <vector>

namespace viaduct::fs {

// The client's own name for the owner, and which client that is.
struct LockOwner {
    std::uint64_t client = 0;
    std::uint64_t id = 0;
    friend bool operator==(const LockOwner&, const LockOwner&) = default;
};

class LockList {
public:
    struct Held {
        LockOwner owner;
        LockType type = LockType::shared;
        LockRange range;
        std::uint32_t pid = 0;
    };
    // One change makes at most that many more.
    static constexpr std::size_t kGrowthMax = 2;

    static bool excludes(LockType one, LockType other) noexcept {
        return one == LockType::exclusive || other == LockType::exclusive;
    }

    // The first that somebody else holds and that is in the way; nullptr: none.
    const Held* conflict(const LockOwner& owner, LockType type, const LockRange& range) const noexcept;
    // From now on `owner` holds the range with that type (none: not at all), whatever it held of it before.
    // Neighbours of the same type become one.
    void set(const Held& wanted);

    std::size_t count_of(const LockOwner& owner) const noexcept;
    const std::vector<Held>& all() const noexcept { return held_; } // by their first byte
    bool empty() const noexcept { return held_.empty(); }

private:
    std::vector<Held> held_;
};

} // namespace viaduct::fs
