// SPDX-License-Identifier: Apache-2.0
#include "topology/map_text.h"

#include "unit/topology/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

namespace viaduct::topology {
namespace {

using testing::HasSubstr;
using testing::Not;

// A machine, its map and the view of both.
struct Shown {
    Shown(Topology cpus, const QueueMapOptions& options)
        : machine(std::move(cpus)), map(QueueMap::make(machine, options)), offered(options.queues) {}
    MapView view() const { return {.topology = machine, .map = map, .offered = offered}; }

    Topology machine;
    QueueMap map;
    unsigned offered;
};

TEST(MapText, table_is_what_sysfs_shows) {
    const Shown shown{flat_machine(4), {.queues = 2}};
    EXPECT_EQ(map_table(shown.view()), "index  name        cpu_list\n"
                                       "0      hiprio      0, 1, 2, 3\n"
                                       "1      requests.0  0, 1\n"
                                       "2      requests.1  2, 3\n");
}

TEST(MapText, table_has_the_notification_queue_and_lines_without_cpus) {
    const Shown shown{numa_machine({{0, 2}}), {.queues = 3, .notification = true}};
    EXPECT_EQ(map_table(shown.view()), "index  name          cpu_list\n"
                                       "0      hiprio        0, 1, 2\n"
                                       "1      notification  0, 1, 2\n"
                                       "2      requests.0    0\n"
                                       "3      requests.1    2\n"
                                       "4      requests.2\n");
}

TEST(MapText, picture_shows_nodes_cores_and_cpus_above_their_queues) {
    Topology machine = flat_machine(12, {6});
    for (Cpu& cpu : machine.cpus) cpu.numa_node = static_cast<CpuId>(cpu.core) / 3;
    const Shown shown{std::move(machine), {.queues = 2}};
    EXPECT_EQ(map_picture(shown.view()), "NUMA node 0\n"
                                         "  CPU   |  0  6 |  1  7 |  2  8 |\n"
                                         "  queue |  1  1 |  1  1 |  1  1 |\n"
                                         "NUMA node 1\n"
                                         "  CPU   |  3  9 |  4 10 |  5 11 |\n"
                                         "  queue |  2  2 |  2  2 |  2  2 |\n");
}

TEST(MapText, picture_separates_caches_and_marks_cpus_that_do_not_run) {
    Topology machine = flat_machine(4);
    for (Cpu& cpu : machine.cpus) cpu.l3 = static_cast<int>(cpu.id / 2);
    machine.cpus[1].online = false;
    machine.cpus[3].present = machine.cpus[3].online = false;
    const Shown shown{std::move(machine), {.queues = 1}};
    EXPECT_EQ(map_picture(shown.view()), "NUMA node 0, L3 cache 0\n"
                                         "  CPU   |  0 | 1! |\n"
                                         "  queue |  1 |  1 |\n"
                                         "NUMA node 0, L3 cache 1\n"
                                         "  CPU   |  2 | 3* |\n"
                                         "  queue |  1 |  1 |\n"
                                         "* absent, may be plugged in\n"
                                         "! present, offline\n");
}

TEST(MapText, picture_of_a_large_machine_keeps_to_the_width_of_a_terminal) {
    const Shown shown{flat_machine(512, {256}), {.queues = 64}};
    std::istringstream lines{map_picture(shown.view())};
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 110U);
}

TEST(MapText, summary_explains_queues_that_are_not_set_up) {
    const Shown shown{flat_machine(4, {2}), {.queues = 64}};
    EXPECT_EQ(map_summary(shown.view()),
              "4 CPUs (0-3), 2 cores, 1 NUMA node; 4 request queues, spread evenly\n"
              "note: of the 64 queues offered a driver sets up 4, because the highest possible CPU is 3\n");
}

TEST(MapText, summary_names_idle_queues) {
    const Shown shown{numa_machine({{0, 2, 4, 6}}), {.queues = 6}};
    EXPECT_THAT(map_summary(shown.view()), HasSubstr("no CPU uses requests.4 to requests.5; Linux 6.17"));
    const Shown modulo{numa_machine({{0, 2, 4}}), {.queues = 2, .policy = QueuePolicy::modulo}};
    EXPECT_THAT(map_summary(modulo.view()), HasSubstr("no CPU uses requests.1\n"));
    EXPECT_THAT(map_summary(modulo.view()), Not(HasSubstr("Linux")));
}

TEST(MapText, json_holds_queues_and_cpus) {
    Topology machine = with_present(numa_machine({{0}, {1}}), {0});
    machine.cpus[0].core = 7;
    const Shown shown{std::move(machine), {.queues = 2}};
    EXPECT_EQ(
        map_json(shown.view()),
        R"({"nr_cpu_ids": 2, "possible": "0-1", "present": "0", "online": "0", "policy": "even", "queues_offered": 2, "request_queues": 2,
 "queues": [{"index": 0, "name": "hiprio", "cpus": [0, 1]},
  {"index": 1, "name": "requests.0", "cpus": [0]},
  {"index": 2, "name": "requests.1", "cpus": [1]}],
 "cpus": [{"id": 0, "numa_node": 0, "core": 7, "cluster": null, "l3": null, "present": true, "online": true, "queue": 1},
  {"id": 1, "numa_node": 1, "core": null, "cluster": null, "l3": null, "present": false, "online": false, "queue": 2}]}
)");
}

} // namespace
} // namespace viaduct::topology
