// SPDX-License-Identifier: Apache-2.0
#include "config/map_options.h"

#include <string_view>

namespace viaduct::config {

Outcome<MapCommand> parse_map(int argc, const char* const* argv) {
    // Request queues follow hiprio and, with its feature, the notification queue; indices have 16 bits.
    constexpr std::uint64_t kQueuesMax = 65'533;
    MapCommand command;
    CommandLine line{"viaduct map", "--queues N [OPTION...]",
                     "Shows which request queue each CPU of a machine submits to."};
    line.number("--queues", command.queues, 1, kQueuesMax, "N", "Request queues that the device offers");
    line.text("--topology", command.topology, "T|FILE.xml",
              "Another machine: a line such as \"NUMANode:2 Core:4 PU:2\", or what lstopo wrote there");
    line.choice("--policy", command.policy, {"even", "modulo"},
                "even: near CPUs share a queue, as in Linux 6.10 and newer; modulo: CPU modulo N");
    line.flag("--clusters", command.clusters,
              "Keep CPUs that share an L2 cache together, as Linux does since 2026");
    line.flag("--json", command.json, "Print JSON");
    TRY(command.request, line.parse(argc, argv));
    command.help = line.help();
    // The help of a number ends with its default; this one has none.
    constexpr std::string_view kNoDefault = " [0]";
    if (const auto at = command.help.find(kNoDefault); at != std::string::npos)
        command.help.erase(at, kNoDefault.size());
    if (command.request != Request::run) return command;
    if (command.queues == 0)
        return usage_failure("--queues is missing; give the number of request queues that the device offers");
    if (command.clusters && command.policy == "modulo")
        return usage_failure(
            "--clusters goes with --policy even, and --policy is \"modulo\", which knows no clusters");
    return command;
}

} // namespace viaduct::config
