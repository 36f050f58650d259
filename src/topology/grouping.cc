// SPDX-License-Identifier: Apache-2.0
#include "topology/grouping.h"

#include "base/assert.h"

#include <algorithm>
#include <cstdint>
#include <unordered_map>
#include <utility>

namespace viaduct::topology {
namespace {

// CPUs that belong together, a NUMA node's or a cluster's, and the number of groups they are given.
struct Share {
    CpuSet cpus;
    std::size_t place =
        0; // among equals; libstdc++ 12's stable sort does not compile as C++23 without warnings
    unsigned groups = 0;
};

// Gives each share groups in proportion to its CPUs, at least one and at most one per CPU.  Going from the
// smallest share to the largest is what keeps the last ones from being left without a group.
// Linux sorts with an unstable sort; which of two equal NUMA nodes gets the lower groups is not promised
// there. Here it is the one with the lower id.
void divide(std::vector<Share>& shares, unsigned groups) {
    std::ranges::sort(shares, {},
                      [](const Share& share) { return std::pair{share.cpus.count(), share.place}; });
    std::uint64_t cpus_left = 0;
    for (const Share& share : shares) cpus_left += share.cpus.count();
    std::uint64_t groups_left = std::min<std::uint64_t>(groups, cpus_left);
    for (Share& share : shares) {
        const std::uint64_t cpus = share.cpus.count();
        share.groups = static_cast<unsigned>(std::max<std::uint64_t>(1, groups_left * cpus / cpus_left));
        ASSERT(share.groups <= cpus);
        ASSERT(share.groups <= groups_left);
        groups_left -= share.groups;
        cpus_left -= cpus;
    }
}

class Grouper {
public:
    Grouper(const Topology& topology, const GroupingOptions& options)
        : topology_(topology), options_(options), groups_(options.groups) {
        for (const Cpu& cpu : topology.cpus)
            if (cpu.core != kNone) cores_[cpu.core].add(cpu.id);
    }

    // Deals `cpus` out, beginning with group `start`; how many groups have got some.
    unsigned deal(const CpuSet& cpus, unsigned start) {
        if (cpus.empty()) return 0;
        current_ = start;
        std::vector<Share> nodes;
        for (const CpuId node : topology_.numa_nodes()) {
            CpuSet part = topology_.cpus_of_node(node) & cpus;
            if (!part.empty()) nodes.push_back({.cpus = std::move(part), .place = nodes.size()});
        }
        if (options_.groups <= nodes.size()) {
            for (const Share& node : nodes) groups_[take_turn()] |= node.cpus;
            return options_.groups;
        }
        divide(nodes, options_.groups);
        unsigned dealt = 0;
        for (Share& node : nodes) {
            deal_node(node);
            dealt += node.groups;
        }
        return dealt;
    }

    std::vector<CpuSet> take() { return std::move(groups_); }

private:
    unsigned take_turn() {
        const unsigned group = current_;
        current_ = (current_ + 1) % options_.groups;
        return group;
    }

    void deal_node(Share& node) {
        std::vector<Share> clusters;
        if (options_.keep_clusters) clusters = clusters_of(node.cpus);
        // Fewer groups than clusters: some group has to reach over two whatever we do.
        if (clusters.empty() || clusters.size() > node.groups) return split(node);
        divide(clusters, node.groups);
        for (Share& cluster : clusters) split(cluster);
    }

    // In order of their lowest CPU; none when a CPU is in no known cluster.
    std::vector<Share> clusters_of(const CpuSet& cpus) const {
        std::vector<std::pair<int, Share>> found;
        for (const CpuId id : cpus) {
            const int cluster = topology_.find(id)->cluster;
            if (cluster == kNone) return {};
            auto at = std::ranges::find(found, cluster, [](const auto& entry) { return entry.first; });
            if (at == found.end()) at = found.insert(at, {cluster, Share{.place = found.size()}});
            at->second.cpus.add(id);
        }
        std::vector<Share> clusters;
        clusters.reserve(found.size());
        for (auto& [cluster, share] : found) clusters.push_back(std::move(share));
        return clusters;
    }

    // Cuts a share into its groups, whose sizes differ by at most one, the larger ones first.
    void split(Share& share) {
        const std::size_t size = share.cpus.count() / share.groups;
        const std::size_t larger = share.cpus.count() % share.groups;
        for (unsigned index = 0; index < share.groups; ++index)
            fill(groups_[take_turn()], share.cpus, size + (index < larger ? 1 : 0));
        ASSERT(share.cpus.empty());
    }

    // Moves `count` CPUs from `pool` to `group`: the lowest, then its siblings, then the lowest again.
    void fill(CpuSet& group, CpuSet& pool, std::size_t count) const {
        const auto move = [&](CpuId cpu) {
            pool.remove(cpu);
            group.add(cpu);
            --count;
        };
        while (count > 0) {
            const auto lowest = pool.first();
            ASSERT(lowest.has_value());
            move(*lowest);
            const auto core = cores_.find(topology_.find(*lowest)->core);
            if (core == cores_.end()) continue;
            for (const CpuId sibling : core->second)
                if (count > 0 && pool.contains(sibling)) move(sibling);
        }
    }

    const Topology& topology_;
    const GroupingOptions options_;
    std::unordered_map<int, CpuSet> cores_;
    std::vector<CpuSet> groups_;
    unsigned current_ = 0;
};

} // namespace

Grouping group_evenly(const Topology& topology, const GroupingOptions& options) {
    ASSERT(options.groups > 0);
    Grouper grouper{topology, options};
    const CpuSet present = topology.present();
    const unsigned first = grouper.deal(present, 0);
    // Absent CPUs go to the groups that have nothing yet, then round again.
    const unsigned second = grouper.deal(topology.possible() - present, first >= options.groups ? 0 : first);
    return {.groups = grouper.take(), .filled = std::min(first + second, options.groups)};
}

} // namespace viaduct::topology
