// SPDX-License-Identifier: Apache-2.0
#include "bench/workload.h"

#include "config/size.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace viaduct::bench {
namespace {

using driver::LoadKind;

struct Name {
    const char* name;
    LoadKind kind;
    bool random;
};
constexpr std::array kNames{Name{"null", LoadKind::null, false},
                            Name{"getattr", LoadKind::getattr, false},
                            Name{"lookup", LoadKind::lookup, false},
                            Name{"open-release", LoadKind::open_release, false},
                            Name{"create-unlink", LoadKind::create_unlink, false},
                            Name{"readdir", LoadKind::readdir, false},
                            Name{"readdirplus", LoadKind::readdirplus, false},
                            Name{"read", LoadKind::read, false},
                            Name{"write", LoadKind::write, false},
                            Name{"randread", LoadKind::read, true},
                            Name{"randwrite", LoadKind::write, true}};
// Reads and writes by half.
constexpr const char* kMixed = "rw";
constexpr const char* kMixedRandom = "randrw";
constexpr std::uint64_t kBlockMax = 1U << 20;
constexpr unsigned kWeightMax = 1'000'000;

std::string all_names() {
    std::string names;
    for (const Name& name : kNames) names.append(name.name).append(", ");
    return names + kMixed + " and " + kMixedRandom;
}

Outcome<Workload> parse_workload(const std::string& option, std::string_view word) {
    const auto mistake = [&](const std::string& what) {
        return usage_failure(option + " has \"" + std::string{word} + "\"; " + what);
    };
    const std::size_t colon = std::min(word.find(':'), word.size());
    const std::string_view name = word.substr(0, colon);
    Workload workload;
    if (name == kMixed || name == kMixedRandom) {
        for (const LoadKind kind : {LoadKind::read, LoadKind::write})
            workload.push_back({.kind = kind, .random = name == kMixedRandom, .block_bytes = 0});
    } else {
        const auto found =
            std::ranges::find(kNames, name, [](const Name& entry) { return std::string_view{entry.name}; });
        if (found == kNames.end()) return mistake("it takes " + all_names());
        workload.push_back({.kind = found->kind, .random = found->random, .block_bytes = 0});
    }
    if (colon == word.size()) return workload;
    if (!moves_data(workload.front().kind)) return mistake("a block size goes with reads and writes only");
    const auto bytes = config::parse_size(word.substr(colon + 1));
    if (!bytes || *bytes == 0 || *bytes % 8 != 0 || *bytes > kBlockMax)
        return mistake("the block size after the colon is a multiple of 8, at most 1M");
    for (driver::LoadPart& part : workload) part.block_bytes = static_cast<std::uint32_t>(*bytes);
    return workload;
}

std::string part_name(const driver::LoadPart& part) {
    const auto found = std::ranges::find_if(kNames, [&](const Name& entry) {
        return entry.kind == part.kind && (entry.random == part.random || !moves_data(part.kind));
    });
    std::string name = found == kNames.end() ? driver::name_of(part.kind) : found->name;
    if (moves_data(part.kind)) name += ":" + config::size_text(part.block_bytes);
    return name;
}

// What kMixed and kMixedRandom stand for.
bool is_half_and_half(const Workload& parts) {
    return parts.size() == 2 && parts[0].kind == LoadKind::read && parts[1].kind == LoadKind::write &&
           parts[0].weight == parts[1].weight && parts[0].random == parts[1].random &&
           parts[0].block_bytes == parts[1].block_bytes;
}

} // namespace

std::vector<std::string_view> split_list(std::string_view list, char separator) {
    std::vector<std::string_view> parts;
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(separator, begin), list.size());
        parts.push_back(list.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

Outcome<std::vector<Workload>> parse_workloads(const std::string& option, std::string_view list) {
    std::vector<Workload> workloads;
    for (const std::string_view word : split_list(list)) {
        TRY(Workload workload, parse_workload(option, word));
        workloads.push_back(std::move(workload));
    }
    return workloads;
}

Outcome<Workload> parse_mix(const std::string& option, std::string_view list) {
    Workload mix;
    for (const std::string_view word : split_list(list)) {
        const std::size_t equals = std::min(word.find('='), word.size());
        TRY(Workload parts, parse_workload(option, word.substr(0, equals)));
        unsigned weight = 1;
        if (equals < word.size()) {
            const std::string_view number = word.substr(equals + 1);
            const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), weight);
            if (error != std::errc{} || end != number.data() + number.size() || weight == 0 ||
                weight > kWeightMax)
                return usage_failure(option + " has \"" + std::string{word} +
                                     "\"; the share after \"=\" is a whole number from 1 to " +
                                     std::to_string(kWeightMax));
        }
        for (driver::LoadPart& part : parts) {
            part.weight = weight;
            mix.push_back(part);
        }
    }
    return mix;
}

void set_workload(const Workload& workload, driver::LoadOptions& load) {
    Workload parts = workload;
    for (driver::LoadPart& part : parts) {
        if (part.block_bytes == 0) part.block_bytes = load.block_bytes;
    }
    load.kind = parts.front().kind;
    load.random = parts.front().random;
    load.block_bytes = parts.front().block_bytes;
    load.mix = parts.size() > 1 ? std::move(parts) : Workload{};
}

std::uint32_t block_of(const driver::LoadOptions& load) {
    std::uint32_t bytes = 0;
    for (const driver::LoadPart& part : parts_of(load))
        bytes = std::max(bytes, moves_data(part.kind) ? part.block_bytes : 0);
    return bytes;
}

std::string workload_name(const driver::LoadOptions& load) {
    const Workload parts = parts_of(load);
    if (parts.size() == 1) return part_name(parts.front());
    if (is_half_and_half(parts))
        return std::string{parts.front().random ? kMixedRandom : kMixed} + ":" +
               config::size_text(parts.front().block_bytes);
    std::string name;
    for (const driver::LoadPart& part : parts)
        name += (name.empty() ? "" : ",") + part_name(part) + "=" + std::to_string(part.weight);
    return name;
}

} // namespace viaduct::bench
