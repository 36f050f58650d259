// SPDX-License-Identifier: Apache-2.0
#include "config/size.h"

#include <array>
#include <charconv>

namespace viaduct::config {
namespace {

struct Unit {
    const char* name;
    std::uint64_t factor;
};
// The largest first.
constexpr std::array kSizes{Unit{"G", 1ULL << 30}, Unit{"M", 1ULL << 20}, Unit{"K", 1ULL << 10}};
constexpr std::array kDurations{Unit{"h", 3'600'000}, Unit{"ms", 1}, Unit{"m", 60'000}, Unit{"s", 1000}};
constexpr std::uint64_t kDurationMaxMs = 1000ULL * 3'600'000;

std::optional<std::uint64_t> whole_number(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

// With the unit that it ends with, or `factor`.
template <std::size_t N>
std::optional<std::uint64_t> product(std::string_view text, const std::array<Unit, N>& units,
                                     std::uint64_t factor) {
    for (const Unit& unit : units) {
        if (!text.ends_with(unit.name)) continue;
        text.remove_suffix(std::string_view{unit.name}.size());
        factor = unit.factor;
        break;
    }
    const auto number = whole_number(text);
    if (!number || *number > UINT64_MAX / factor) return std::nullopt;
    return *number * factor;
}

} // namespace

std::optional<std::uint64_t> parse_size(std::string_view text) {
    return product(text, kSizes, 1);
}

std::string size_text(std::uint64_t bytes) {
    for (const Unit& unit : kSizes) {
        if (bytes != 0 && bytes % unit.factor == 0) return std::to_string(bytes / unit.factor) + unit.name;
    }
    return std::to_string(bytes);
}

std::optional<std::chrono::milliseconds> parse_duration(std::string_view text) {
    const auto ms = product(text, kDurations, 1000);
    if (!ms || *ms > kDurationMaxMs) return std::nullopt;
    return std::chrono::milliseconds{*ms};
}

std::string duration_text(std::chrono::milliseconds duration) {
    const auto ms = static_cast<std::uint64_t>(duration.count());
    for (const Unit& unit : {Unit{"h", 3'600'000}, Unit{"m", 60'000}, Unit{"s", 1000}}) {
        if (ms != 0 && ms % unit.factor == 0) return std::to_string(ms / unit.factor) + unit.name;
    }
    return std::to_string(ms) + "ms";
}

} // namespace viaduct::config
