// SPDX-License-Identifier: Apache-2.0
//
// The even grouping of Linux: all possible CPUs into N groups, with those together that share hardware.
//
// Linux spreads interrupts and virtio-fs request queues over CPUs with it (lib/group_cpus.c); this follows
// the behaviour, so that a map made here is the map that a guest makes.  Present CPUs are dealt out first,
// then those that may still be plugged in, so that the CPUs at hand have the queues to themselves.  Being
// online plays no role: a CPU that comes or goes moves no queue.
#pragma once

#include "topology/topology.h"

#include <vector>

namespace viaduct::topology {

struct GroupingOptions {
    unsigned groups = 1;
    // Linux of 2026 and newer: where a NUMA node gets at least as many groups as it has clusters, no group
    // reaches over two clusters.
    bool keep_clusters = false;
};

struct Grouping {
    std::vector<CpuSet> groups; // as many as asked for
    // The first `filled` groups have CPUs, those behind are empty.
    unsigned filled = 0;
};

// Every possible CPU lands in exactly one group.
Grouping group_evenly(const Topology& topology, const GroupingOptions& options);

} // namespace viaduct::topology
