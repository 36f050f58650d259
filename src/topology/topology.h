// SPDX-License-Identifier: Apache-2.0
//
// The CPUs of a machine, as plain values: what grouping and queue map look at.
//
// Read from a machine by machine.h, or written down by hand in a test.
#pragma once

#include "topology/cpu_set.h"

#include <vector>

namespace viaduct::topology {

// No core, cluster or cache is known.
constexpr int kNone = -1;

// A CPU that the machine has or may get.  An id that no Cpu has is a hole: it never runs anything.
struct Cpu {
    CpuId id = 0;
    CpuId numa_node = 0;
    int core = kNone;    // CPUs of one core are siblings; numbered over the whole machine
    int cluster = kNone; // CPUs that share an L2 cache, or what the firmware calls a cluster
    int l3 = kNone;
    bool present = true; // plugged in
    bool online = true;  // runs; online implies present

    friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct Topology {
    std::vector<Cpu> cpus; // ascending ids, each once

    CpuSet possible() const;
    CpuSet present() const;
    CpuSet online() const;
    // Highest possible id + 1, which is not the number of CPUs where ids have holes; 0 without CPUs.
    CpuId nr_cpu_ids() const { return cpus.empty() ? 0 : cpus.back().id + 1; }
    // Ascending ids of the NUMA nodes that have CPUs.
    std::vector<CpuId> numa_nodes() const;
    // Of those, the CPUs of one.
    CpuSet cpus_of_node(CpuId numa_node) const;
    // Null: a hole, or beyond the last.
    const Cpu* find(CpuId id) const;

    friend bool operator==(const Topology&, const Topology&) = default;
};

} // namespace viaduct::topology
