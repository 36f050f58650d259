// SPDX-License-Identifier: Apache-2.0
//
// A queue map to look at: the table that Linux shows in sysfs, a picture of the machine, and JSON.
#pragma once

#include "topology/queue_map.h"

#include <string>

namespace viaduct::topology {

// What was mapped; `offered` are the request queues of the device, of which `map` may use fewer.
struct MapView {
    const Topology& topology;
    const QueueMap& map;
    unsigned offered = 0;
};

// One line on the machine and the map, then one per thing an operator would trip over.
std::string map_summary(const MapView& view);
// Index, name and cpu_list of each queue, as below /sys/fs/virtiofs/N/mqs.
std::string map_table(const MapView& view);
// NUMA nodes, L3 caches, cores and CPUs, each CPU above its queue.
std::string map_picture(const MapView& view);
std::string map_json(const MapView& view);

} // namespace viaduct::topology
