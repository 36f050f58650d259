// SPDX-License-Identifier: Apache-2.0
//
// Sizes and durations as people write them.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct::config {

// A whole number, with K, M or G for the powers of 1024: "4K" is 4096.  nullopt: no such thing, or beyond 64
// bits.
std::optional<std::uint64_t> parse_size(std::string_view text);
// The shortest form that parse_size() reads: "4K", "1M", "100".
std::string size_text(std::uint64_t bytes);

// A whole number with ms, s, m or h; without a unit seconds: "500ms", "30", "2m".  At most 1000 h.
std::optional<std::chrono::milliseconds> parse_duration(std::string_view text);
// The shortest form that parse_duration() reads, with its unit.
std::string duration_text(std::chrono::milliseconds duration);

} // namespace viaduct::config
