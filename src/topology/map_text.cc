// SPDX-License-Identifier: Apache-2.0
#include "topology/map_text.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace viaduct::topology {
namespace {

constexpr std::size_t kPictureWidth = 100;

std::string counted(std::size_t count, std::string_view noun) {
    return std::to_string(count) + ' ' + std::string{noun} + (count == 1 ? "" : "s");
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
}

std::string right(const std::string& text, std::size_t width) {
    return std::string(width - std::min(width, text.size()), ' ') + text;
}

const char* name_of(QueueMap::Source source) {
    switch (source) {
    case QueueMap::Source::masks:
        return "masks";
    case QueueMap::Source::grouping:
        return "even";
    case QueueMap::Source::modulo:
        return "modulo";
    case QueueMap::Source::no_cpus:
        return "none";
    }
    return "none";
}

std::size_t core_count(const Topology& topology) {
    std::set<int> cores;
    std::size_t alone = 0;
    for (const Cpu& cpu : topology.cpus) cpu.core == kNone ? void(++alone) : void(cores.insert(cpu.core));
    return cores.size() + alone;
}

struct Row {
    VirtqueueIndex index;
    std::string name;
    CpuSet cpus;
};

std::vector<Row> rows_of(const MapView& view) {
    std::vector<Row> rows;
    // Any CPU may send on these, so Linux lists every id below nr_cpu_ids for them, holes too.
    CpuSet ids;
    for (CpuId id = 0; id < view.topology.nr_cpu_ids(); ++id) ids.add(id);
    rows.push_back({.index = 0, .name = "hiprio", .cpus = ids});
    if (view.map.first_request() == 2) rows.push_back({.index = 1, .name = "notification", .cpus = ids});
    for (unsigned request = 0; request < view.map.request_queues(); ++request) {
        const auto index = static_cast<VirtqueueIndex>(view.map.first_request() + request);
        rows.push_back(
            {.index = index, .name = "requests." + std::to_string(request), .cpus = view.map.cpus_of(index)});
    }
    return rows;
}

// The idle request queues.
std::vector<std::string> idle_queues(const MapView& view) {
    std::vector<std::string> names;
    for (const Row& row : rows_of(view))
        if (row.index >= view.map.first_request() && row.cpus.empty()) names.push_back(row.name);
    return names;
}

std::string cell(const Cpu& cpu) {
    return std::to_string(cpu.id) + (!cpu.present ? "*" : !cpu.online ? "!" : "");
}

// The CPUs of one core, side by side.
using Core = std::vector<const Cpu*>;

// CPUs that share NUMA node and L3 cache, by core; a core stands where its lowest CPU would.
struct Block {
    CpuId numa_node;
    int l3;
    std::vector<Core> cores;
};

std::vector<Block> blocks_of(const Topology& topology) {
    std::vector<Block> blocks;
    for (const CpuId node : topology.numa_nodes()) {
        const std::size_t first = blocks.size();
        for (const Cpu& cpu : topology.cpus) {
            if (cpu.numa_node != node) continue;
            auto block = std::find_if(blocks.begin() + static_cast<std::ptrdiff_t>(first), blocks.end(),
                                      [&](const Block& one) { return one.l3 == cpu.l3; });
            if (block == blocks.end())
                block = blocks.insert(block, {.numa_node = node, .l3 = cpu.l3, .cores = {}});
            const auto core = std::ranges::find_if(block->cores, [&](const Core& one) {
                return cpu.core != kNone && one.front()->core == cpu.core;
            });
            if (core == block->cores.end())
                block->cores.push_back({&cpu});
            else
                core->push_back(&cpu);
        }
    }
    return blocks;
}

void draw_block(std::string& text, const MapView& view, const Block& block, std::size_t width) {
    text += "NUMA node " + std::to_string(block.numa_node);
    if (block.l3 != kNone) text += ", L3 cache " + std::to_string(block.l3);
    text += '\n';
    std::string ids;
    std::string queues;
    const auto flush = [&] {
        text += "  CPU   |" + ids + "\n  queue |" + queues + '\n';
        ids.clear();
        queues.clear();
    };
    for (const Core& core : block.cores) {
        // Lines break between cores only.
        if (!ids.empty() && ids.size() + core.size() * (width + 1) + 2 > kPictureWidth) flush();
        for (const Cpu* const cpu : core) {
            ids += ' ' + right(cell(*cpu), width);
            queues += ' ' + right(std::to_string(view.map.queue_of(cpu->id)), width);
        }
        ids += " |";
        queues += " |";
    }
    flush();
}

// A JSON array of what `value` writes for each element, with `between` in between.
template <class Range, class Value> std::string array(const Range& range, const char* between, Value value) {
    std::string text;
    for (const auto& element : range) {
        if (!text.empty()) text += between;
        text += value(element);
    }
    return '[' + text + ']';
}

const char* json_bool(bool value) {
    return value ? "true" : "false";
}

std::string json_id(int id) {
    return id == kNone ? "null" : std::to_string(id);
}

} // namespace

std::string map_summary(const MapView& view) {
    const CpuSet possible = view.topology.possible();
    std::string text =
        counted(possible.count(), "CPU") + " (" + possible.list_text() + "), " +
        counted(core_count(view.topology), "core") + ", " +
        counted(view.topology.numa_nodes().size(), "NUMA node") + "; " +
        counted(view.map.request_queues(), "request queue") +
        (view.map.source() == QueueMap::Source::modulo ? ", CPU modulo queues\n" : ", spread evenly\n");
    if (view.map.request_queues() < view.offered)
        text += "note: of the " + counted(view.offered, "queue") + " offered a driver sets up " +
                std::to_string(view.map.request_queues()) + ", because the highest possible CPU is " +
                std::to_string(view.topology.nr_cpu_ids() - 1) + '\n';
    const auto idle = idle_queues(view);
    if (!idle.empty()) {
        text += "note: no CPU uses " + idle.front() + (idle.size() > 1 ? " to " + idle.back() : "");
        if (view.map.source() == QueueMap::Source::grouping)
            text += "; Linux 6.17 and newer leave the first queues idle in place of the last";
        text += '\n';
    }
    return text;
}

std::string map_table(const MapView& view) {
    const auto rows = rows_of(view);
    std::size_t width = 0;
    for (const Row& row : rows) width = std::max(width, row.name.size());
    std::string text = "index  " + padded("name", width) + "  cpu_list\n";
    for (const Row& row : rows) {
        text += padded(std::to_string(row.index), 5) + "  ";
        // An idle queue's line ends with its name.
        text += row.cpus.empty() ? row.name : padded(row.name, width) + "  " + row.cpus.sysfs_text();
        text += '\n';
    }
    return text;
}

std::string map_picture(const MapView& view) {
    std::size_t width = 1;
    for (const Cpu& cpu : view.topology.cpus)
        width = std::max({width, cell(cpu).size(), std::to_string(view.map.queue_of(cpu.id)).size()});
    std::string text;
    for (const Block& block : blocks_of(view.topology)) draw_block(text, view, block, width);
    const CpuSet absent = view.topology.possible() - view.topology.present();
    const CpuSet offline = view.topology.present() - view.topology.online();
    if (!absent.empty()) text += "* absent, may be plugged in\n";
    if (!offline.empty()) text += "! present, offline\n";
    return text;
}

std::string map_json(const MapView& view) {
    const Topology& topology = view.topology;
    std::string text = "{\"nr_cpu_ids\": " + std::to_string(topology.nr_cpu_ids());
    text += ", \"possible\": \"" + topology.possible().list_text() + "\", \"present\": \"" +
            topology.present().list_text() + "\", \"online\": \"" + topology.online().list_text() + '"';
    text += std::string{", \"policy\": \""} + name_of(view.map.source()) + "\"";
    text += ", \"queues_offered\": " + std::to_string(view.offered);
    text += ", \"request_queues\": " + std::to_string(view.map.request_queues());
    text += ",\n \"queues\": " + array(rows_of(view), ",\n  ", [](const Row& row) {
                return "{\"index\": " + std::to_string(row.index) + ", \"name\": \"" + row.name +
                       "\", \"cpus\": " +
                       array(row.cpus, ", ", [](CpuId cpu) { return std::to_string(cpu); }) + '}';
            });
    text += ",\n \"cpus\": " + array(topology.cpus, ",\n  ", [&view](const Cpu& cpu) {
                return "{\"id\": " + std::to_string(cpu.id) +
                       ", \"numa_node\": " + std::to_string(cpu.numa_node) +
                       ", \"core\": " + json_id(cpu.core) + ", \"cluster\": " + json_id(cpu.cluster) +
                       ", \"l3\": " + json_id(cpu.l3) + ", \"present\": " + json_bool(cpu.present) +
                       ", \"online\": " + json_bool(cpu.online) +
                       ", \"queue\": " + std::to_string(view.map.queue_of(cpu.id)) + '}';
            });
    return text + "}\n";
}

} // namespace viaduct::topology
