// SPDX-License-Identifier: Apache-2.0
#include "bench/sweep.h"

#include "bench/workload.h"
#include "config/size.h"

#include <algorithm>
#include <array>
#include <expected>
#include <string>
#include <tuple>
#include <utility>

namespace viaduct::bench {
namespace {

struct Rule {
    AxisName name;
    const char* word;
    std::uint64_t max = 0;
    std::uint64_t step = 1;                   // values are multiples of it
    std::string_view words = {};              // instead of numbers
    std::string_view takes = "whole numbers"; // said of a wrong number
};
constexpr std::array kRules{
    Rule{.name = AxisName::threads, .word = "threads", .max = 4096},
    Rule{.name = AxisName::queues, .word = "queues", .max = 1024},
    Rule{.name = AxisName::depth, .word = "depth", .max = 65'536},
    Rule{.name = AxisName::block, .word = "block", .max = 1 << 20, .step = 8, .takes = "multiples of 8"},
    Rule{.name = AxisName::completion, .word = "completion", .words = "poll,wait,threads"},
    Rule{.name = AxisName::dispatch, .word = "dispatch", .words = "direct,staged"},
    Rule{.name = AxisName::affinity, .word = "affinity", .words = "off,on"},
};
// Rows beyond this are a slip of the pen.
constexpr std::size_t kPointsMax = 10'000;

std::unexpected<Failure> mistake(std::string_view text, const std::string& what) {
    return usage_failure("--sweep is \"" + std::string{text} + "\"; " + what);
}

std::string all_axes() {
    std::string names;
    for (const Rule& rule : kRules) names.append(names.empty() ? "" : ", ").append(rule.word);
    return names;
}

// What an axis takes there, or what is wrong with it.
std::expected<std::uint64_t, std::string> value_of(AxisName axis, std::string_view text) {
    const Rule& rule = *std::ranges::find(kRules, axis, &Rule::name);
    const std::string wrong = ", not \"" + std::string{text} + "\"";
    if (!rule.words.empty()) {
        const auto words = split_list(rule.words);
        const auto found = std::ranges::find(words, text);
        if (found == words.end())
            return std::unexpected{std::string{rule.word} + " takes " + std::string{rule.words} + wrong};
        return static_cast<std::uint64_t>(found - words.begin());
    }
    const auto value = config::parse_size(text);
    if (!value || *value == 0 || *value > rule.max || *value % rule.step != 0)
        return std::unexpected{std::string{rule.word} + " takes " + std::string{rule.takes} + " up to " +
                               std::to_string(rule.max) + wrong};
    return *value;
}

void set(driver::LoadOptions& load, AxisName name, std::uint64_t value) {
    const auto number = static_cast<std::uint32_t>(value);
    switch (name) {
    case AxisName::threads:
        load.threads = number;
        return;
    case AxisName::queues:
        load.queues = number;
        return;
    case AxisName::depth:
        load.depth = number;
        return;
    case AxisName::block:
        return set_block(load, number);
    case AxisName::completion:
        load.completion = static_cast<driver::Completion>(value);
        return;
    case AxisName::dispatch:
        load.dispatch = static_cast<driver::Dispatch>(value);
        return;
    case AxisName::affinity:
        load.affinity = value != 0;
        return;
    }
}

} // namespace

Outcome<std::vector<Axis>> parse_sweep(std::string_view text) {
    std::vector<Axis> axes;
    std::size_t points = 1;
    for (std::string_view word : split_list(text)) {
        if (const std::size_t equals = word.find('='); equals != std::string_view::npos) {
            const std::string_view name = word.substr(0, equals);
            const auto rule = std::ranges::find(
                kRules, name, [](const Rule& entry) { return std::string_view{entry.word}; });
            if (rule == kRules.end())
                return mistake(text, "\"" + std::string{name} + "\" is none of " + all_axes());
            if (std::ranges::find(axes, rule->name, &Axis::name) != axes.end())
                return mistake(text, "\"" + std::string{name} + "\" is there twice");
            axes.push_back({.name = rule->name, .values = {}});
            word.remove_prefix(equals + 1);
        }
        if (axes.empty())
            return mistake(text, "it takes an axis and its values, as threads=1,2,queues=1,2,4");
        const auto value = value_of(axes.back().name, word);
        if (!value) return mistake(text, value.error());
        axes.back().values.push_back(*value);
    }
    for (const Axis& axis : axes) points *= std::min(axis.values.size(), kPointsMax);
    if (points > kPointsMax)
        return mistake(text, "that is " + std::to_string(points) + " rows, at most 10000");
    return axes;
}

std::vector<driver::LoadOptions> expand(const std::vector<driver::LoadOptions>& points,
                                        const std::vector<Axis>& axes) {
    std::vector<driver::LoadOptions> expanded = points;
    for (const Axis& axis : axes) {
        std::vector<driver::LoadOptions> next;
        for (const driver::LoadOptions& point : expanded) {
            for (const std::uint64_t value : axis.values) set(next.emplace_back(point), axis.name, value);
        }
        expanded = std::move(next);
    }
    remove_repeated(expanded);
    return expanded;
}

void set_block(driver::LoadOptions& load, std::uint32_t bytes) {
    load.block_bytes = bytes;
    for (driver::LoadPart& part : load.mix) part.block_bytes = bytes;
}

bool same_point(const driver::LoadOptions& a, const driver::LoadOptions& b) {
    const auto numbers = [](const driver::LoadOptions& load) {
        return std::tuple{load.queues,   load.threads,  load.depth, load.completion,
                          load.dispatch, load.affinity, load.by_cpu};
    };
    return numbers(a) == numbers(b) && workload_name(a) == workload_name(b);
}

void remove_repeated(std::vector<driver::LoadOptions>& points) {
    std::vector<driver::LoadOptions> kept;
    for (driver::LoadOptions& point : points) {
        const auto same = [&](const driver::LoadOptions& other) { return same_point(point, other); };
        if (std::ranges::none_of(kept, same)) kept.push_back(std::move(point));
    }
    points = std::move(kept);
}

} // namespace viaduct::bench
