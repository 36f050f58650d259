// SPDX-License-Identifier: Apache-2.0
#include "fs/xattr_map.h"

namespace viaduct::fs {
namespace {

constexpr std::string_view kSpace = " \t\n\r";

void skip_space(std::string_view& text) noexcept {
    text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
}

// Up to the separator, which is taken too.
std::optional<std::string_view> take_field(std::string_view& text, char separator) noexcept {
    const std::size_t end = text.find(separator);
    if (end == text.npos) return std::nullopt;
    const std::string_view field = text.substr(0, end);
    text.remove_prefix(end + 1);
    return field;
}

} // namespace

std::optional<XattrMap::Type> XattrMap::type_of(std::string_view word) noexcept {
    if (word == "prefix") return Type::prefix;
    if (word == "ok") return Type::ok;
    if (word == "bad") return Type::bad;
    if (word == "unsupported") return Type::unsupported;
    return std::nullopt;
}

void XattrMap::add_map(std::string key, std::string prepend) {
    const bool all = key.empty();
    rules_.push_back({.type = Type::prefix, .client = true, .server = true, .key = key, .prepend = prepend});
    if (!all) {
        rules_.push_back(
            {.type = Type::bad, .client = false, .server = true, .key = {}, .prepend = std::move(key)});
        rules_.push_back(
            {.type = Type::bad, .client = true, .server = false, .key = std::move(prepend), .prepend = {}});
    }
    rules_.push_back(
        {.type = all ? Type::bad : Type::ok, .client = true, .server = true, .key = {}, .prepend = {}});
}

Outcome<XattrMap> XattrMap::parse(std::string_view rules) {
    XattrMap map;
    bool mapped = false;
    std::size_t number = 0;
    for (skip_space(rules); !rules.empty(); skip_space(rules)) {
        const auto wrong = [&, number = ++number](const std::string& why) {
            return failure("rule " + std::to_string(number) + " " + why);
        };
        if (mapped) return wrong("follows a map rule; that one comes last");
        const char separator = rules.front();
        rules.remove_prefix(1);
        const auto incomplete = [&] {
            return wrong(
                std::string{
                    "is not complete; a rule is \":type:scope:key:prepend:\" or \":map:key:prepend:\", "
                    "here with '"} +
                separator + "' for each ':'");
        };
        const auto word = take_field(rules, separator);
        if (!word) return incomplete();
        mapped = *word == "map";
        const auto type = type_of(*word);
        if (!mapped && !type)
            return wrong("has the type \"" + std::string{*word} +
                         "\"; it takes prefix, ok, bad, unsupported or map");
        const auto scope = mapped ? std::optional<std::string_view>{"all"} : take_field(rules, separator);
        if (!scope) return incomplete();
        if (*scope != "client" && *scope != "server" && *scope != "all")
            return wrong("has the scope \"" + std::string{*scope} + "\"; it takes client, server or all");
        const auto key = take_field(rules, separator);
        if (!key) return incomplete();
        const auto prepend = take_field(rules, separator);
        if (!prepend) return incomplete();
        if (mapped)
            map.add_map(std::string{*key}, std::string{*prepend});
        else
            map.rules_.push_back({.type = *type,
                                  .client = *scope != "server",
                                  .server = *scope != "client",
                                  .key = std::string{*key},
                                  .prepend = std::string{*prepend}});
    }
    if (map.rules_.empty()) return failure("there is no rule; \":map::user.virtiofs.:\" is a common one");
    return map;
}

Result<std::string> XattrMap::to_host(std::string_view name) const {
    for (const Rule& rule : rules_) {
        if (!rule.client || !name.starts_with(rule.key)) continue;
        switch (rule.type) {
        case Type::prefix:
            return rule.prepend + std::string{name};
        case Type::ok:
            return std::string{name};
        case Type::bad:
            return fail(EPERM);
        case Type::unsupported:
            return fail(EOPNOTSUPP);
        }
    }
    return fail(EPERM);
}

std::optional<std::string_view> XattrMap::to_client(std::string_view name) const noexcept {
    for (const Rule& rule : rules_) {
        if (!rule.server || !name.starts_with(rule.prepend)) continue;
        switch (rule.type) {
        case Type::prefix:
            name.remove_prefix(rule.prepend.size());
            return name;
        case Type::ok:
            return name;
        case Type::bad:
        case Type::unsupported:
            return std::nullopt;
        }
    }
    return std::nullopt;
}

} // namespace viaduct::fs
