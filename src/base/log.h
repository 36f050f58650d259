// SPDX-License-Identifier: Apache-2.0
//
// Logging: one line to stderr (or syslog) per call, with a level and the thread's name.
//
// Format strings are those of std::format-like "{}"; formatting happens only when the level is on.  spdlog is
// used by log.cc alone.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace viaduct::log {

enum class Level { trace, debug, info, warn, error, off };

void set_level(Level level) noexcept;
Level level() noexcept;
bool enabled(Level level) noexcept;
// The level of that name ("warn", "info", ...).
Result<Level> parse_level(std::string_view name);
// Sends lines to syslog (facility daemon, ident `ident`) instead of stderr.
void to_syslog(const std::string& ident);
void write(Level level, std::string_view text) noexcept;

// Small formatter: replaces each "{}" by the next argument, in order.
std::string format(std::string_view pattern, std::initializer_list<std::string> arguments);

inline std::string to_text(std::string_view value) {
    return std::string{value};
}
inline std::string to_text(const std::string& value) {
    return value;
}
inline std::string to_text(const char* value) {
    return value;
}
inline std::string to_text(bool value) {
    return value ? "true" : "false";
}
inline std::string to_text(Errno value) {
    return value.name() + " (" + value.text() + ")";
}
template <class T>
    requires std::is_arithmetic_v<T>
std::string to_text(T value) {
    return std::to_string(value);
}

template <class... Arguments> void at(Level level, std::string_view pattern, const Arguments&... arguments) {
    if (enabled(level)) write(level, format(pattern, {to_text(arguments)...}));
}
template <class... Arguments> void error(std::string_view pattern, const Arguments&... arguments) {
    at(Level::error, pattern, arguments...);
}
template <class... Arguments> void warn(std::string_view pattern, const Arguments&... arguments) {
    at(Level::warn, pattern, arguments...);
}
template <class... Arguments> void info(std::string_view pattern, const Arguments&... arguments) {
    at(Level::info, pattern, arguments...);
}
template <class... Arguments> void debug(std::string_view pattern, const Arguments&... arguments) {
    at(Level::debug, pattern, arguments...);
}

} // namespace viaduct::log
