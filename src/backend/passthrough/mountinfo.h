// SPDX-License-Identifier: Apache-2.0
//
// /proc/self/mountinfo, proc(5).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace viaduct::passthrough {

inline constexpr const char* kMountinfo = "/proc/self/mountinfo";

struct MountLine {
    std::uint64_t id = 0;   // as STATX_MNT_ID has it; not unique over time
    std::string_view point; // where it is mounted, with escapes, see unescaped()
    std::string_view type;
};

// Goes through the lines of a text of mountinfo, which outlives what they name.
class MountLines {
public:
    explicit MountLines(std::string_view text) noexcept : rest_(text) {}
    // nullopt: there are no more.  Fields that a line does not have are empty.
    std::optional<MountLine> next() noexcept;

private:
    std::string_view rest_;
};

// The whole text; nullopt where it cannot be read.
std::optional<std::string> read_mountinfo();
// mountinfo writes blank, tab, newline and backslash as a backslash and three octal digits.
std::string unescaped(std::string_view text);

} // namespace viaduct::passthrough
