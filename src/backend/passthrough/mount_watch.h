// SPDX-License-Identifier: Apache-2.0
//
// MountWatch: whether a mount with a server that may hang lies below the share.
//
// Where none does, a name may be given to statx(2), which walks into a mount that lies on it and may then
// wait for that mount's server.  See docs/decisions/lookup.md.
#pragma once

#include "base/fd.h"
#include "base/sync.h"

#include <cstdint>
#include <string_view>

namespace viaduct::passthrough {

// Is a mount of a remote type in that text of mountinfo mounted below `folder`, an absolute path?
bool remote_below(std::string_view mountinfo, std::string_view folder);

class MountWatch {
public:
    // `share` is copied.  Without mountinfo there may always be such a mount.
    explicit MountWatch(int share);

    // Any thread.
    bool none_remote() const noexcept { return (state_.load(std::memory_order_relaxed) & kNone) != 0; }
    // Asks the kernel whether mounts have changed since it was asked last.  If so there may be remote ones,
    // until look() has been called.  Any thread.
    bool changed() noexcept;
    // Reads the mounts; some milliseconds where there are thousands.  Any thread, but not a worker.
    void look();

private:
    static constexpr std::uint64_t kNone = 1;

    const Fd share_;
    const Fd mountinfo_; // polled only
    // Number of changes seen, times two, and kNone.
    sync::Shared<std::uint64_t> state_;
};

} // namespace viaduct::passthrough
