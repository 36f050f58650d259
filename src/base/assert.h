// SPDX-License-Identifier: Apache-2.0
//
// ASSERT: our own mistakes, checked in release builds too.
//
// For what a guest or a peer sends use Result; an assertion that a peer can trip is a bug.
#pragma once

namespace viaduct {

// Prints the condition and its place to stderr and aborts.  Async-signal-safe.
[[noreturn]] void assertion_failed(const char* condition, const char* file, int line) noexcept;

} // namespace viaduct

#define ASSERT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) [[unlikely]]                                                                       \
            ::viaduct::assertion_failed(#condition, __FILE__, __LINE__);                                     \
    } while (false)
