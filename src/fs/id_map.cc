// SPDX-License-Identifier: Apache-2.0
#include "fs/id_map.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace viaduct::fs {
namespace {

constexpr std::uint64_t kIdsEnd = 0xffffffffU; // (uid_t)-1 is no id

std::vector<std::string_view> split(std::string_view text) {
    std::vector<std::string_view> fields;
    while (true) {
        const std::size_t end = std::min(text.find(':'), text.size());
        fields.push_back(text.substr(0, end));
        if (end == text.size()) return fields;
        text.remove_prefix(end + 1);
    }
}

struct Form {
    std::string_view name;
    const char* written;
    std::size_t numbers;
};
constexpr std::array kForms{
    Form{"guest", "guest:GUEST_ID:HOST_ID:COUNT", 3},
    Form{"host", "host:HOST_ID:GUEST_ID:COUNT", 3},
    Form{"map", "map:GUEST_ID:HOST_ID:COUNT", 3},
    Form{"squash-guest", "squash-guest:GUEST_ID:HOST_ID:COUNT", 3},
    Form{"squash-host", "squash-host:HOST_ID:GUEST_ID:COUNT", 3},
    Form{"forbid-guest", "forbid-guest:GUEST_ID:COUNT", 2},
};

std::string names_of_forms() {
    std::string names;
    for (const Form& form : kForms) {
        if (!names.empty()) names += &form == &kForms.back() ? " or " : ", ";
        names += form.name;
    }
    return names;
}

} // namespace

Outcome<void> IdMap::add(Ranges& ranges, Range range) {
    if (range.count == 0) return {};
    const auto wrong = [&](const std::string& why) { return failure("\"" + range.rule + "\" " + why); };
    const auto beyond = [](std::uint32_t first, std::uint32_t count) {
        return std::uint64_t{first} + count > kIdsEnd;
    };
    if (beyond(range.first, range.count) || beyond(range.target, range.kind == Kind::each ? range.count : 1))
        return wrong("reaches beyond the last id, 4294967294; give a smaller count");
    const auto next = std::ranges::upper_bound(ranges, range.first, {}, &Range::first);
    const Range* overlapped = nullptr;
    if (next != ranges.end() && next->first - range.first < range.count) overlapped = &*next;
    if (next != ranges.begin() && range.first - std::prev(next)->first < std::prev(next)->count)
        overlapped = &*std::prev(next);
    if (overlapped != nullptr)
        return wrong("covers ids that \"" + overlapped->rule +
                     "\" covers too; the number at the end is a count");
    ranges.insert(next, std::move(range));
    return {};
}

Outcome<void> IdMap::add_rule(const std::string& rule) {
    const auto wrong = [&](const std::string& why) { return failure("\"" + rule + "\" " + why); };
    const auto fields = split(rule);
    const auto form = std::ranges::find(kForms, fields[0], &Form::name);
    if (form == kForms.end()) return wrong("begins with no known word; it takes " + names_of_forms());
    if (fields.size() != form->numbers + 1) return wrong(std::string{"is not of the form "} + form->written);
    std::array<std::uint32_t, 3> numbers{};
    for (std::size_t index = 0; index < form->numbers; ++index) {
        const std::string_view field = fields[index + 1];
        const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), numbers[index]);
        if (error != std::errc{} || end != field.data() + field.size())
            return wrong("has \"" + std::string{field} + "\" for a number; it takes 0 to 4294967295");
    }
    const auto [first, second, third] = numbers;
    if (form->name == "forbid-guest")
        return add(to_host_,
                   {.first = first, .count = second, .target = 0, .kind = Kind::forbidden, .rule = rule});
    const Kind kind = form->name.starts_with("squash") ? Kind::one : Kind::each;
    if (form->name == "host" || form->name == "squash-host")
        return add(to_client_,
                   {.first = first, .count = third, .target = second, .kind = kind, .rule = rule});
    TRY_STATUS(add(to_host_, {.first = first, .count = third, .target = second, .kind = kind, .rule = rule}));
    if (form->name != "map") return {};
    return add(to_client_, {.first = second, .count = third, .target = first, .kind = kind, .rule = rule});
}

Outcome<IdMap> IdMap::parse(std::span<const std::string> rules) {
    IdMap map;
    for (const std::string& rule : rules) TRY_STATUS(map.add_rule(rule));
    return map;
}

const IdMap::Range* IdMap::find(const Ranges& ranges, std::uint32_t id) noexcept {
    const auto next = std::ranges::upper_bound(ranges, id, {}, &Range::first);
    if (next == ranges.begin()) return nullptr;
    const Range& range = *std::prev(next);
    return id - range.first < range.count ? &range : nullptr;
}

Result<std::uint32_t> IdMap::to_host(std::uint32_t id) const noexcept {
    const Range* const range = find(to_host_, id);
    if (range == nullptr) return id;
    if (range->kind == Kind::forbidden) return fail(EPERM);
    return range->kind == Kind::one ? range->target : range->target + (id - range->first);
}

std::uint32_t IdMap::to_client(std::uint32_t id) const noexcept {
    const Range* const range = find(to_client_, id);
    if (range == nullptr) return id;
    return range->kind == Kind::one ? range->target : range->target + (id - range->first);
}

} // namespace viaduct::fs
