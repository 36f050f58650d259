// SPDX-License-Identifier: Apache-2.0
//
// The SIGBUS guard: ranges of memory that a peer may take away under us.
//
// A fault in a guarded range gets a zero page there and marks the range as lost; any other fault goes to the
// handler that was there before.  The table has a fixed size and is read from the signal handler: its entries
// are atomics and no lock is involved.
#pragma once

#include "base/result.h"

#include <atomic>
#include <cstddef>

namespace viaduct::vhost {

class BusGuard {
public:
    // Ranges in the whole process: sixteen devices with every memory slot in use.
    static constexpr std::size_t kRangesMax = 8192;

    // Puts [start, start + bytes) under guard.  `page_bytes`: unit in which the range can be replaced (huge
    // pages have a larger one).  The flag returned is set when some of it is lost, and is valid until
    // release().  ENOSPC: too many ranges.
    static Result<std::atomic<bool>*> guard(void* start, std::size_t bytes, std::size_t page_bytes);
    static void release(std::atomic<bool>* lost) noexcept;
};

} // namespace viaduct::vhost
