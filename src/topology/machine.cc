// SPDX-License-Identifier: Apache-2.0
#include "topology/machine.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <fstream>
#include <hwloc.h>
#include <iterator>
#include <memory>
#include <optional>
#include <unistd.h>

namespace viaduct::topology {
namespace {

constexpr const char* kExample =
    "it takes a line such as \"NUMANode:2 Core:4 PU:2\" or an XML file of lstopo";

struct Destroy {
    void operator()(hwloc_topology* topology) const { hwloc_topology_destroy(topology); }
};
using Hwloc = std::unique_ptr<hwloc_topology, Destroy>;

Outcome<Hwloc> start() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0) return failure("hwloc_topology_init", Errno{errno});
    Hwloc owner{topology};
    hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    // The x86 component would move this thread from CPU to CPU to ask each one; sysfs says the same.
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    return owner;
}

int ancestor(hwloc_topology_t topology, hwloc_obj_type_t type, hwloc_obj_t pu) {
    const hwloc_obj* const found = hwloc_get_ancestor_obj_by_type(topology, type, pu);
    return found != nullptr ? static_cast<int>(found->logical_index) : kNone;
}

// Firmware that knows clusters names them (arm64); elsewhere Linux takes the CPUs that share an L2 cache.
int cluster_of(hwloc_topology_t topology, hwloc_obj_t pu) {
    for (const hwloc_obj* at = pu->parent; at != nullptr; at = at->parent)
        if (at->type == HWLOC_OBJ_GROUP && at->subtype != nullptr && std::strcmp(at->subtype, "Cluster") == 0)
            return static_cast<int>(at->logical_index);
    return ancestor(topology, HWLOC_OBJ_L2CACHE, pu);
}

// The lowest NUMA node whose complete set names the CPU: absent CPUs have no object of their own.
CpuId node_of(hwloc_topology_t topology, CpuId cpu) {
    std::optional<CpuId> lowest;
    std::optional<CpuId> home;
    for (hwloc_obj_t node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, nullptr);
         node != nullptr; node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) {
        const CpuId id = node->os_index;
        lowest = std::min(lowest.value_or(id), id);
        if (hwloc_bitmap_isset(node->complete_cpuset, cpu) != 0) home = std::min(home.value_or(id), id);
    }
    return home.value_or(lowest.value_or(0));
}

Outcome<Topology> converted(hwloc_topology_t topology) {
    const hwloc_obj* const root = hwloc_get_root_obj(topology);
    // -1: no last bit, either way round.
    const int last = hwloc_bitmap_last(root->complete_cpuset);
    if (last < 0)
        return failure("hwloc finds no CPU in it with an id from 0 to " + std::to_string(kCpuIdMax));
    if (static_cast<CpuId>(last) > kCpuIdMax)
        return failure("it has a CPU " + std::to_string(last) + "; the highest that Linux can have is " +
                       std::to_string(kCpuIdMax));
    Topology result;
    for (int id = hwloc_bitmap_first(root->complete_cpuset); id >= 0;
         id = hwloc_bitmap_next(root->complete_cpuset, id)) {
        Cpu cpu{.id = static_cast<CpuId>(id), .present = false, .online = false};
        if (const hwloc_obj_t pu = hwloc_get_pu_obj_by_os_index(topology, cpu.id); pu != nullptr) {
            cpu.core = ancestor(topology, HWLOC_OBJ_CORE, pu);
            cpu.cluster = cluster_of(topology, pu);
            cpu.l3 = ancestor(topology, HWLOC_OBJ_L3CACHE, pu);
            cpu.present = true;
            cpu.online = true;
        }
        cpu.numa_node = node_of(topology, cpu.id);
        result.cpus.push_back(cpu);
    }
    return result;
}

std::optional<CpuSet> sysfs_set(const char* name) {
    std::ifstream file{std::string{"/sys/devices/system/cpu/"} + name};
    if (!file) return std::nullopt;
    const std::string text{std::istreambuf_iterator<char>{file}, {}};
    const auto set = CpuSet::parse(text);
    if (!set) return std::nullopt;
    return *set;
}

// How many CPUs a description asks for: the product of its counts.  hwloc would build them all before we
// could look, and "Core:100000 PU:100000" would take the memory of the machine.
bool asks_for_too_many(const std::string& description) {
    std::uint64_t product = 1;
    int depth = 0;
    for (std::size_t at = 0; at < description.size(); ++at) {
        const char letter = description[at];
        if (letter == '(' || letter == '[') ++depth;
        if (letter == ')' || letter == ']') --depth;
        const bool begins = at == 0 || description[at - 1] == ':' || description[at - 1] == ' ';
        if (depth > 0 || !begins || std::isdigit(static_cast<unsigned char>(letter)) == 0) continue;
        std::uint64_t count = 0;
        for (; at < description.size() && std::isdigit(static_cast<unsigned char>(description[at])) != 0;
             ++at)
            count =
                std::min<std::uint64_t>(count * 10 + static_cast<unsigned>(description[at] - '0'), 1U << 20);
        product = std::min<std::uint64_t>(product * count, 1U << 20);
        --at;
    }
    return product > kCpuIdMax + 1;
}

} // namespace

void set_states(Topology& topology, const CpuStates& states, CpuId fallback_node) {
    for (const CpuId id : states.possible) {
        if (topology.find(id) != nullptr) continue;
        const auto place = std::ranges::lower_bound(topology.cpus, id, {}, &Cpu::id);
        topology.cpus.insert(place, {.id = id, .numa_node = fallback_node});
    }
    std::erase_if(topology.cpus, [&](const Cpu& cpu) { return !states.possible.contains(cpu.id); });
    for (Cpu& cpu : topology.cpus) {
        cpu.present = states.present.contains(cpu.id);
        cpu.online = cpu.present && states.online.contains(cpu.id);
        // Linux forgets a CPU's siblings when it goes offline.
        if (!cpu.online) cpu.core = cpu.cluster = cpu.l3 = kNone;
    }
}

Outcome<Topology> this_machine() {
    TRY(const Hwloc topology, start());
    if (hwloc_topology_load(topology.get()) != 0) return failure("hwloc_topology_load", Errno{errno});
    TRY(Topology result, converted(topology.get()));
    const auto possible = sysfs_set("possible");
    const auto present = sysfs_set("present");
    const auto online = sysfs_set("online");
    // Without sysfs what hwloc found has to do.
    if (!possible || !present || !online || possible->empty()) return result;
    const auto nodes = result.numa_nodes();
    set_states(result, {.possible = *possible, .present = *present, .online = *online}, nodes.front());
    return result;
}

Outcome<Topology> synthetic_machine(const std::string& description) {
    if (asks_for_too_many(description))
        return failure("that is more CPUs than Linux can have; it takes at most " +
                       std::to_string(kCpuIdMax + 1));
    TRY(const Hwloc topology, start());
    if (hwloc_topology_set_synthetic(topology.get(), description.c_str()) != 0)
        return failure(std::string{"hwloc does not understand it; "} + kExample);
    if (hwloc_topology_load(topology.get()) != 0)
        return failure(std::string{"hwloc builds no machine from it; "} + kExample);
    return converted(topology.get());
}

Outcome<Topology> xml_machine(const std::string& path) {
    if (::access(path.c_str(), R_OK) != 0) return failure("the file cannot be read", Errno{errno}, kExample);
    TRY(const Hwloc topology, start());
    if (hwloc_topology_set_xml(topology.get(), path.c_str()) != 0)
        return failure(std::string{"the file is not XML of hwloc; "} + kExample);
    if (hwloc_topology_load(topology.get()) != 0)
        return failure(std::string{"the file describes no machine that hwloc understands; "} + kExample);
    return converted(topology.get());
}

Outcome<Topology> machine_of(const std::string& path_or_description) {
    if (path_or_description.ends_with(".xml") || ::access(path_or_description.c_str(), F_OK) == 0)
        return xml_machine(path_or_description);
    return synthetic_machine(path_or_description);
}

} // namespace viaduct::topology
