// SPDX-License-Identifier: Apache-2.0
#include "engine/fault_rules.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

namespace viaduct::engine {
namespace {

using Rule = fs::Faults::Rule;

// In the order of Faults::Operation.
constexpr std::array<std::string_view, fs::Faults::kOperations> kOperationNames{
    "lookup",     "getattr",    "setattr", "readlink",  "symlink", "mknod",           "mkdir",    "unlink",
    "rmdir",      "rename",     "link",    "open",      "create",  "tmpfile",         "read",     "write",
    "flush",      "fsync",      "release", "fallocate", "lseek",   "copy_file_range", "opendir",  "readdir",
    "fsyncdir",   "releasedir", "statfs",  "syncfs",    "access",  "setxattr",        "getxattr", "listxattr",
    "removexattr"};

std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts{""};
    for (const char c : text) {
        if (c == separator)
            parts.emplace_back();
        else
            parts.back() += c;
    }
    return parts;
}

std::optional<std::uint32_t> number(std::string_view text) {
    std::uint32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return value;
}

std::optional<int> errno_named(std::string_view name) {
    for (int value = 1; value < 134; ++value) // EHWPOISON is the last
        if (const char* const known = ::strerrorname_np(value); known != nullptr && name == known)
            return value;
    return std::nullopt;
}

bool apply(Rule& rule, const std::string& part) {
    const std::string key = part.substr(0, part.find('='));
    const std::string value = part.size() > key.size() ? part.substr(key.size() + 1) : "";
    if (key == "blocking" && value.empty()) {
        rule.blocking = true;
        return true;
    }
    if (key == "deaf" && value.empty()) {
        rule.deaf = true;
        return true;
    }
    if (key == "errno") {
        const auto error = errno_named(value);
        rule.error = error.value_or(0);
        return error.has_value();
    }
    const auto count = number(value);
    if (!count) return false;
    if (key == "delay")
        rule.delay = std::chrono::milliseconds{*count};
    else if (key == "short")
        rule.bytes_max = *count;
    else if (key == "calls")
        rule.calls = *count;
    else
        return false;
    return true;
}

} // namespace

Outcome<FaultRules> parse_fault_rules(const std::string& text) {
    FaultRules rules;
    for (const std::string& one : split(text, ',')) {
        const auto parts = split(one, ':');
        const auto operation = std::ranges::find(kOperationNames, parts.front());
        if (operation == kOperationNames.end())
            return usage_failure("--faults names the operation \"" + parts.front() +
                                 "\"; it takes one of the file system's calls, for example read or lookup");
        Rule rule;
        for (std::size_t index = 1; index < parts.size(); ++index)
            if (!apply(rule, parts[index]))
                return usage_failure(
                    "--faults says \"" + parts[index] + "\" of " + parts.front() +
                    "; it takes delay=MS, blocking, deaf, errno=NAME, short=BYTES and calls=N");
        rules.emplace_back(static_cast<fs::Faults::Operation>(operation - kOperationNames.begin()), rule);
    }
    return rules;
}

} // namespace viaduct::engine
