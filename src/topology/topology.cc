// SPDX-License-Identifier: Apache-2.0
#include "topology/topology.h"

#include <algorithm>

namespace viaduct::topology {
namespace {

template <class Predicate> CpuSet select(const std::vector<Cpu>& cpus, Predicate predicate) {
    CpuSet set;
    for (const Cpu& cpu : cpus)
        if (predicate(cpu)) set.add(cpu.id);
    return set;
}

} // namespace

CpuSet Topology::possible() const {
    return select(cpus, [](const Cpu&) { return true; });
}

CpuSet Topology::present() const {
    return select(cpus, [](const Cpu& cpu) { return cpu.present; });
}

CpuSet Topology::online() const {
    return select(cpus, [](const Cpu& cpu) { return cpu.online; });
}

std::vector<CpuId> Topology::numa_nodes() const {
    std::vector<CpuId> nodes;
    nodes.reserve(cpus.size());
    for (const Cpu& cpu : cpus) nodes.push_back(cpu.numa_node);
    std::ranges::sort(nodes);
    const auto repeated = std::ranges::unique(nodes);
    nodes.erase(repeated.begin(), repeated.end());
    return nodes;
}

CpuSet Topology::cpus_of_node(CpuId numa_node) const {
    return select(cpus, [numa_node](const Cpu& cpu) { return cpu.numa_node == numa_node; });
}

const Cpu* Topology::find(CpuId id) const {
    const auto cpu = std::ranges::lower_bound(cpus, id, {}, &Cpu::id);
    return cpu != cpus.end() && cpu->id == id ? &*cpu : nullptr;
}

} // namespace viaduct::topology
