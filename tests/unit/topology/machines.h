// SPDX-License-Identifier: Apache-2.0
//
// Machines written down by hand, and random ones.
#pragma once

#include "topology/topology.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <utility>
#include <vector>

namespace viaduct::topology {

// A new seed for each run; VIADUCT_SEED repeats the one that a failure printed.
inline std::uint64_t random_seed() {
    const char* const given = std::getenv("VIADUCT_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

struct Siblings {
    CpuId stride; // CPU c is a sibling of c + stride, up to the end; 0: no siblings
};

// One NUMA node with CPUs 0 to cpus-1.
inline Topology flat_machine(CpuId cpus, Siblings siblings = {0}) {
    Topology machine;
    for (CpuId id = 0; id < cpus; ++id)
        machine.cpus.push_back(
            {.id = id, .core = siblings.stride > 0 ? static_cast<int>(id % siblings.stride) : kNone});
    return machine;
}

// One entry per NUMA node.
inline Topology numa_machine(const std::vector<CpuSet>& nodes) {
    Topology machine;
    for (CpuId node = 0; node < nodes.size(); ++node)
        for (const CpuId id : nodes[node]) machine.cpus.push_back({.id = id, .numa_node = node});
    std::ranges::sort(machine.cpus, {}, &Cpu::id);
    return machine;
}

// The same machine with only these CPUs plugged in.
inline Topology with_present(Topology machine, const CpuSet& present) {
    for (Cpu& cpu : machine.cpus) cpu.present = cpu.online = present.contains(cpu.id);
    return machine;
}

// The same machine without its absent CPUs.
inline Topology only_present(Topology machine) {
    std::erase_if(machine.cpus, [](const Cpu& cpu) { return !cpu.present; });
    return machine;
}

// 1 to 4 NUMA nodes, 1 to 512 CPUs, 1 to 4 threads a core, clusters of 1 to 4 cores; holes in the ids and
// absent CPUs in half of the machines each; NUMA nodes in one piece or interleaved, siblings side by side or
// apart.
inline Topology random_machine(std::mt19937_64& random) {
    const auto pick = [&random](unsigned low, unsigned high) {
        return std::uniform_int_distribution<unsigned>{low, high}(random);
    };
    // Small machines are where rounding shows, so half of them are.
    const unsigned count = pick(0, 1) == 0 ? pick(1, 24) : pick(1, 512);
    const unsigned nodes = std::min(pick(1, 4), count);
    const unsigned threads = 1U << pick(0, 2);
    const unsigned cores_per_cluster = pick(1, 4);
    const unsigned absent_percent = pick(0, 1) * pick(0, 90);
    const unsigned hole_percent = pick(0, 1) * pick(0, 50);
    std::vector<Cpu> cpus;
    for (unsigned place = 0; place < count; ++place) {
        const unsigned core = place / threads;
        cpus.push_back(
            {.core = static_cast<int>(core), .cluster = static_cast<int>(core / cores_per_cluster)});
        if (pick(1, 100) <= absent_percent) cpus.back().present = cpus.back().online = false;
    }
    // Whole clusters go to a NUMA node, in unequal parts.
    std::vector<CpuId> node_of_cluster(count, 0);
    for (CpuId& node : node_of_cluster) node = pick(0, nodes - 1) * pick(0, 1);
    for (Cpu& cpu : cpus) cpu.numa_node = node_of_cluster[static_cast<unsigned>(cpu.cluster)];
    // Side by side as they are, a NUMA node after the other, or in any order.
    const unsigned order = pick(0, 2);
    if (order == 1)
        std::ranges::sort(cpus, {}, [](const Cpu& cpu) { return std::pair{cpu.numa_node, cpu.core}; });
    if (order == 2) std::ranges::shuffle(cpus, random);
    CpuId id = 0;
    for (Cpu& cpu : cpus) {
        while (pick(1, 100) <= hole_percent) ++id;
        cpu.id = id++;
    }
    return {.cpus = std::move(cpus)};
}

} // namespace viaduct::topology
