// SPDX-License-Identifier: Apache-2.0
//
// Locks on files, as a FileSystem is asked for them.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <limits>
#include <optional>

namespace viaduct::fs {

// The two kinds do not see each other.
enum class LockKind : std::uint8_t {
    posix, // of fcntl(2), by process or by open file; a range
    flock, // of flock(2), by open file; the whole file
};

enum class LockType : std::uint8_t { none, shared, exclusive };

// Bytes of a file, both ends included.
struct LockRange {
    static constexpr std::uint64_t kEnd = std::numeric_limits<std::int64_t>::max(); // however long it grows
    std::uint64_t first = 0;
    std::uint64_t last = kEnd;

    bool overlaps(const LockRange& other) const noexcept {
        return first <= other.last && other.first <= last;
    }
    friend bool operator==(const LockRange&, const LockRange&) = default;
};

struct FileLock {
    LockKind kind = LockKind::posix;
    LockType type = LockType::none; // none: unlock
    LockRange range;
    std::uint64_t owner = 0; // as the client names it
    std::uint32_t pid = 0;   // the client's process; 0: not one of this client
};

// The locks of one owner on one file as programs of this host see them.  Gone with the object.
class HostLocks {
public:
    virtual ~HostLocks() = default;
    // Is what it holds open fit for that type?
    virtual bool allows(LockType type) const noexcept = 0;
    // Does not wait.  EAGAIN: somebody else's is in the way.
    virtual Status set(LockType type, const LockRange& range) = 0;
    // What stands in the way of that type; pid 0.
    virtual Result<std::optional<FileLock>> query(LockType type, const LockRange& range) = 0;
};

} // namespace viaduct::fs
