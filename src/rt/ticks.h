// SPDX-License-Identifier: Apache-2.0
//
// Time in units that are cheap to read: cycles of the time-stamp counter, or nanoseconds where there is none.
#pragma once

#include "base/clock.h"

#include <cstdint>

namespace viaduct::rt {

// A tick lasts at most a nanosecond (no counter is slower than 1 GHz).
inline std::uint64_t ticks() noexcept {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return monotonic_ns();
#endif
}

} // namespace viaduct::rt
