// SPDX-License-Identifier: Apache-2.0
//
// Where a Topology comes from: this machine, a description in one line, or a file that was saved elsewhere.
//
// hwloc reads all three and is used by machine.cc alone.  CPUs that a cgroup keeps from this process count:
// the map is the machine's.
#pragma once

#include "base/result.h"
#include "topology/topology.h"

#include <string>

namespace viaduct::topology {

// From hwloc, with possible, present and online CPUs as /sys/devices/system/cpu tells them.
Outcome<Topology> this_machine();

// "NUMANode:4 Core:4 PU:2", hwloc's synthetic format.  "PU:2(indexes=0,2,4,6)" numbers the CPUs, with holes
// where wanted.  All CPUs are present and online.
Outcome<Topology> synthetic_machine(const std::string& description);

// hwloc's XML, as lstopo writes it.  What is only in complete_cpuset is possible but absent: the file does
// not tell an absent CPU from one that is present and offline.
Outcome<Topology> xml_machine(const std::string& path);

// A path that exists or ends in ".xml", else a description.
Outcome<Topology> machine_of(const std::string& path_or_description);

// Sets which CPUs are possible, present and online.  CPUs that `topology` lacks are added to `fallback_node`,
// without siblings; it is how Linux treats them, too.
struct CpuStates {
    CpuSet possible;
    CpuSet present;
    CpuSet online;
};
void set_states(Topology& topology, const CpuStates& states, CpuId fallback_node);

} // namespace viaduct::topology
