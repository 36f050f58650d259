// SPDX-License-Identifier: Apache-2.0
#include "engine/map.h"

#include "topology/machine.h"
#include "topology/map_text.h"
#include "topology/queue_map.h"

namespace viaduct::engine {
namespace {

Outcome<topology::Topology> machine(const std::string& text) {
    if (text.empty()) return topology::this_machine();
    auto found = topology::machine_of(text);
    if (!found) return usage_failure("--topology is \"" + text + "\": " + found.error().message);
    return found;
}

} // namespace

Outcome<std::string> map_text(const config::MapCommand& command) {
    TRY(const topology::Topology cpus, machine(command.topology));
    const auto queues = static_cast<unsigned>(command.queues);
    const bool modulo = command.policy == "modulo";
    const auto map = topology::QueueMap::make(
        cpus, {.queues = queues,
               .policy = modulo ? topology::QueuePolicy::modulo : topology::QueuePolicy::even,
               .keep_clusters = command.clusters});
    const topology::MapView view{.topology = cpus, .map = map, .offered = queues};
    if (command.json) return topology::map_json(view);
    return topology::map_summary(view) + '\n' + topology::map_table(view) + '\n' +
           topology::map_picture(view);
}

} // namespace viaduct::engine
