// SPDX-License-Identifier: Apache-2.0
#include "bench/preset.h"

#include "bench/workload.h"

#include <algorithm>
#include <array>

namespace viaduct::bench {
namespace {

struct Shape {
    std::uint32_t threads;
    std::uint32_t queues;
};

struct Preset {
    const char* short_name;
    const char* name;
    const char* kinds;
    std::uint32_t depth;
    std::vector<Shape> shapes;
};

const std::vector<Preset>& presets() {
    static const std::vector<Preset> all{
        {"s0", "random-write", "randwrite:4K", 128, {{8, 8}}},
        {"s2",
         "threads-by-queues",
         "read:256K",
         128,
         {{1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 1}, {16, 2}, {16, 4}, {16, 8}, {24, 24}}},
        {"s3", "sequential", "read:256K,write:256K", 8, {{32, 1}, {32, 8}, {32, 16}, {32, 32}}},
        {"s4", "random-read-write", "randrw:4K", 128, {{8, 8}}},
    };
    return all;
}

} // namespace

Outcome<std::vector<driver::LoadOptions>> preset_points(const std::string& name,
                                                        const driver::LoadOptions& common) {
    const auto found = std::ranges::find_if(
        presets(), [&](const Preset& preset) { return name == preset.short_name || name == preset.name; });
    if (found == presets().end()) {
        std::string names;
        for (const Preset& preset : presets())
            names += std::string{names.empty() ? "" : ", "} + preset.name + " (" + preset.short_name + ")";
        return usage_failure("--preset is \"" + name + "\"; it takes one of " + names);
    }
    std::vector<driver::LoadOptions> points;
    TRY(const auto workloads, parse_workloads("--preset", found->kinds));
    for (const Workload& workload : workloads) {
        for (const Shape& shape : found->shapes) {
            driver::LoadOptions& load = points.emplace_back(common);
            set_workload(workload, load);
            load.depth = found->depth;
            load.threads = shape.threads;
            load.queues = shape.queues;
            load.completion = driver::Completion::wait;
        }
    }
    return points;
}

} // namespace viaduct::bench
