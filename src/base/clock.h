// SPDX-License-Identifier: Apache-2.0
//
// The clock for durations.
#pragma once

#include <cstdint>
#include <ctime>

namespace viaduct {

inline std::uint64_t monotonic_ns() noexcept {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

} // namespace viaduct
