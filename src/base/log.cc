// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <atomic>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/sinks/syslog_sink.h>
#include <spdlog/spdlog.h>

namespace viaduct::log {
namespace {

constexpr std::string_view kNames[] = {"trace", "debug", "info", "warn", "error", "off"};
std::atomic<Level> current_level{Level::info};

spdlog::level::level_enum native(Level level) {
    constexpr spdlog::level::level_enum table[] = {spdlog::level::trace, spdlog::level::debug,
                                                   spdlog::level::info,  spdlog::level::warn,
                                                   spdlog::level::err,   spdlog::level::off};
    return table[static_cast<int>(level)];
}

std::shared_ptr<spdlog::logger>& logger() {
    // Shared with spdlog's sinks, and replaced once by to_syslog before threads start.
    static std::shared_ptr<spdlog::logger> instance = [] {
        auto made =
            std::make_shared<spdlog::logger>("viaduct", std::make_shared<spdlog::sinks::stderr_sink_mt>());
        made->set_pattern("[%Y-%m-%dT%H:%M:%S.%eZ %l %t] %v", spdlog::pattern_time_type::utc);
        made->set_level(spdlog::level::trace);
        made->flush_on(spdlog::level::trace);
        return made;
    }();
    return instance;
}

} // namespace

void set_level(Level level) noexcept {
    current_level.store(level, std::memory_order_relaxed);
}
Level level() noexcept {
    return current_level.load(std::memory_order_relaxed);
}
bool enabled(Level level) noexcept {
    return level >= current_level.load(std::memory_order_relaxed);
}

Result<Level> parse_level(std::string_view name) {
    for (int index = 0; index < static_cast<int>(std::size(kNames)); ++index)
        if (kNames[index] == name) return static_cast<Level>(index);
    return fail(EINVAL);
}

void to_syslog(const std::string& ident) {
    auto made = std::make_shared<spdlog::logger>(
        "viaduct", std::make_shared<spdlog::sinks::syslog_sink_mt>(ident, LOG_PID, LOG_DAEMON, false));
    made->set_pattern("%v");
    made->set_level(spdlog::level::trace);
    logger() = std::move(made);
}

void write(Level level, std::string_view text) noexcept {
    logger()->log(native(level), spdlog::string_view_t{text.data(), text.size()});
}

std::string format(std::string_view pattern, std::initializer_list<std::string> arguments) {
    std::string text;
    auto next = arguments.begin();
    for (std::size_t at = 0; at < pattern.size();) {
        if (pattern.substr(at, 2) == "{}" && next != arguments.end()) {
            text += *next++;
            at += 2;
        } else {
            text += pattern[at++];
        }
    }
    return text;
}

} // namespace viaduct::log
