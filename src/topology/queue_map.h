// SPDX-License-Identifier: Apache-2.0
//
// Which request queue each CPU submits to.
//
// Made once, when a device is set up; CPUs that come and go change nothing.  The rules are those of Linux's
// virtio-fs driver, with the differences that docs/decisions/queue-map.md gives reasons for.
#pragma once

#include "topology/topology.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace viaduct::topology {

// Index of a virtqueue; hiprio is 0.
using VirtqueueIndex = std::uint16_t;

enum class QueuePolicy : std::uint8_t {
    even,   // the device's masks, else even grouping
    modulo, // CPU id modulo number of queues: for comparison, knows nothing of the machine
};

struct QueueMapOptions {
    unsigned queues = 1; // request queues that the device offers
    QueuePolicy policy = QueuePolicy::even;
    // The notification queue takes index 1, so request queues begin at 2.
    bool notification = false;
    bool keep_clusters = false; // see GroupingOptions
    // The CPUs that the device's interrupts are spread to, one set per request queue.  One that is missing
    // makes all of them void: a map from two sources would leave CPUs to chance.
    std::vector<std::optional<CpuSet>> masks;
};

class QueueMap {
public:
    // What decided.
    enum class Source : std::uint8_t { masks, grouping, modulo, no_cpus };

    static QueueMap make(const Topology& topology, const QueueMapOptions& options);
    // Queues that are set up of `offered` ones: at most one per CPU id, as Linux has it, and at least one.
    static unsigned queues_used(const Topology& topology, unsigned offered);

    // Never hiprio: a hole, or a CPU that appeared out of nowhere, uses the first request queue.
    VirtqueueIndex queue_of(CpuId cpu) const noexcept {
        return cpu < queue_of_cpu_.size() ? queue_of_cpu_[cpu] : first_request_;
    }
    // The possible CPUs that submit to a request queue; may be none.
    const CpuSet& cpus_of(VirtqueueIndex queue) const;

    VirtqueueIndex first_request() const noexcept { return first_request_; }
    unsigned request_queues() const noexcept { return static_cast<unsigned>(cpus_.size()); }
    Source source() const noexcept { return source_; }

private:
    QueueMap(const Topology& topology, const QueueMapOptions& options);
    void assign(const CpuSet& cpus, unsigned request);
    bool use_masks(const QueueMapOptions& options);
    void use_groups(const Topology& topology, const QueueMapOptions& options);

    VirtqueueIndex first_request_;
    Source source_ = Source::no_cpus;
    std::vector<VirtqueueIndex> queue_of_cpu_; // by CPU id
    std::vector<CpuSet> cpus_;                 // by request queue
};

} // namespace viaduct::topology
