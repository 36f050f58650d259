// SPDX-License-Identifier: Apache-2.0
#include "topology/queue_map.h"

#include "base/assert.h"
#include "topology/grouping.h"

#include <algorithm>
#include <span>

namespace viaduct::topology {

unsigned QueueMap::queues_used(const Topology& topology, unsigned offered) {
    return std::max(1U, std::min(offered, topology.nr_cpu_ids()));
}

QueueMap QueueMap::make(const Topology& topology, const QueueMapOptions& options) {
    return {topology, options};
}

QueueMap::QueueMap(const Topology& topology, const QueueMapOptions& options)
    : first_request_(options.notification ? 2 : 1),
      // Every id, holes too, starts at the first request queue.  Zero would be hiprio.
      queue_of_cpu_(topology.nr_cpu_ids(), first_request_), cpus_(queues_used(topology, options.queues)) {
    ASSERT(options.queues > 0);
    if (topology.cpus.empty()) return;
    if (options.policy == QueuePolicy::modulo) {
        source_ = Source::modulo;
        for (const Cpu& cpu : topology.cpus) assign({cpu.id}, cpu.id % request_queues());
    } else if (use_masks(options)) {
        source_ = Source::masks;
    } else {
        source_ = Source::grouping;
        use_groups(topology, options);
    }
    for (const Cpu& cpu : topology.cpus)
        cpus_[static_cast<unsigned>(queue_of_cpu_[cpu.id] - first_request_)].add(cpu.id);
}

const CpuSet& QueueMap::cpus_of(VirtqueueIndex queue) const {
    ASSERT(queue >= first_request_);
    ASSERT(queue < first_request_ + cpus_.size());
    return cpus_[static_cast<unsigned>(queue - first_request_)];
}

void QueueMap::assign(const CpuSet& cpus, unsigned request) {
    // A device's mask may name CPUs that this machine cannot have.
    for (const CpuId cpu : cpus)
        if (cpu < queue_of_cpu_.size())
            queue_of_cpu_[cpu] = static_cast<VirtqueueIndex>(first_request_ + request);
}

bool QueueMap::use_masks(const QueueMapOptions& options) {
    if (options.masks.size() < cpus_.size()) return false;
    const auto masks = std::span{options.masks}.first(cpus_.size());
    if (!std::ranges::all_of(masks, [](const auto& mask) { return mask.has_value(); })) return false;
    // Where masks overlap the last one decides, as in Linux.
    for (unsigned request = 0; request < masks.size(); ++request) assign(*masks[request], request);
    return true;
}

// More queues than groups with CPUs happens only where ids have holes, as there is at most a queue per id.
// Then the first queues get the CPUs and the last stay idle: Linux 6.10 to 6.16 do that.  Later ones go round
// the groups once more for the remaining queues, so that the last queue keeps a CPU and the first are the
// idle ones. See docs/decisions/queue-map.md.
void QueueMap::use_groups(const Topology& topology, const QueueMapOptions& options) {
    const Grouping grouping =
        group_evenly(topology, {.groups = request_queues(), .keep_clusters = options.keep_clusters});
    for (unsigned request = 0; request < grouping.filled; ++request)
        assign(grouping.groups[request], request);
}

} // namespace viaduct::topology
