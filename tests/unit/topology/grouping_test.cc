// SPDX-License-Identifier: Apache-2.0
//
// Even grouping: machines whose groups are known.
#include "topology/grouping.h"

#include "unit/topology/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace viaduct::topology {
namespace {

using testing::ElementsAre;

std::vector<CpuSet> groups_of(const Topology& machine, unsigned groups) {
    return group_evenly(machine, {.groups = groups}).groups;
}

struct Known {
    const char* name;
    Topology machine;
    unsigned groups;
    std::vector<CpuSet> expected;
    unsigned filled;
};

class KnownGroups : public testing::TestWithParam<Known> {};

TEST_P(KnownGroups, are_made) {
    const Known& known = GetParam();
    const Grouping grouping = group_evenly(known.machine, {.groups = known.groups});
    EXPECT_EQ(grouping.groups.size(), known.groups);
    EXPECT_EQ(grouping.filled, known.filled);
    for (unsigned group = 0; group < known.groups; ++group)
        EXPECT_EQ(grouping.groups[group].list_text(), known.expected[group].list_text()) << "group " << group;
}

// Two NUMA nodes of four CPUs.
Topology two_by_four() {
    return numa_machine({CpuSet::range(0, 3), CpuSet::range(4, 7)});
}

const CpuSet kAllOfEight = CpuSet::range(0, 7);

INSTANTIATE_TEST_SUITE_P(
    Grouping, KnownGroups,
    testing::Values(
        Known{"three_of_eight", flat_machine(8), 3, {{0, 1, 2}, {3, 4, 5}, {6, 7}}, 3},
        Known{"three_cut_sibling_pairs", flat_machine(8, {4}), 3, {{0, 4, 1}, {2, 6, 3}, {5, 7}}, 3},
        Known{"four_keep_sibling_pairs", flat_machine(8, {4}), 4, {{0, 4}, {1, 5}, {2, 6}, {3, 7}}, 4},
        Known{"four_on_two_nodes", two_by_four(), 4, {{0, 1}, {2, 3}, {4, 5}, {6, 7}}, 4},
        Known{"three_on_two_equal_nodes", two_by_four(), 3, {{0, 1, 2, 3}, {4, 5}, {6, 7}}, 3},
        Known{"two_on_interleaved_nodes",
              numa_machine({{0, 2, 4, 6}, {1, 3, 5, 7}}),
              2,
              {{0, 2, 4, 6}, {1, 3, 5, 7}},
              2},
        Known{"one_takes_all_nodes", two_by_four(), 1, {kAllOfEight}, 1},
        Known{"smaller_node_first",
              numa_machine({CpuSet::range(0, 5), {6, 7}}),
              4,
              {{6, 7}, {0, 1}, {2, 3}, {4, 5}},
              4},
        Known{"more_groups_than_cpus", flat_machine(4), 6, {{0}, {1}, {2}, {3}, {}, {}}, 4},
        Known{"absent_half",
              with_present(flat_machine(8), CpuSet::range(0, 3)),
              4,
              {{0, 4}, {1, 5}, {2, 6}, {3, 7}},
              4},
        Known{"absent_three_quarters",
              with_present(flat_machine(8), {0, 1}),
              4,
              {{0, 6}, {1, 7}, {2, 3}, {4, 5}},
              4},
        Known{"two_of_two", flat_machine(2), 2, {{0}, {1}}, 2},
        Known{"one_of_two", flat_machine(2), 1, {{0, 1}}, 1}, Known{"one_cpu", flat_machine(1), 1, {{0}}, 1},
        Known{"more_groups_than_one_cpu", flat_machine(1), 3, {{0}, {}, {}}, 1},
        Known{"fewer_groups_than_nodes",
              numa_machine({{0}, {1}, {2, 3}, {4}, {5}}),
              3,
              {{0, 4}, {1, 5}, {2, 3}},
              3},
        Known{"node_without_present_cpus",
              with_present(two_by_four(), CpuSet::range(0, 3)),
              2,
              {{0, 1, 4, 5}, {2, 3, 6, 7}},
              2},
        Known{"nothing_present", with_present(flat_machine(4), {}), 2, {{0, 1}, {2, 3}}, 2},
        Known{"holes", numa_machine({{0, 5, 9}, {100, 1000}}), 3, {{100, 1000}, {0, 5}, {9}}, 3}),
    [](const auto& info) { return std::string{info.param.name}; });

TEST(Grouping, a_machine_without_cpus_fills_no_group) {
    const Grouping grouping = group_evenly(Topology{}, {.groups = 2});
    EXPECT_EQ(grouping.filled, 0U);
    EXPECT_THAT(grouping.groups, ElementsAre(CpuSet{}, CpuSet{}));
}

TEST(Grouping, node_ids_decide_and_not_the_order_of_cpu_ids) {
    const Topology machine = numa_machine({CpuSet::range(4, 7), CpuSet::range(0, 3)});
    EXPECT_THAT(groups_of(machine, 3), ElementsAre(CpuSet::range(4, 7), CpuSet{0, 1}, CpuSet{2, 3}));
}

TEST(Grouping, offline_cpus_count_as_present) {
    Topology machine = flat_machine(8);
    for (Cpu& cpu : machine.cpus) cpu.online = cpu.id < 2;
    EXPECT_EQ(groups_of(machine, 4), groups_of(flat_machine(8), 4));
}

// Six CPUs in clusters of three, CPU ids across both.
Topology two_clusters() {
    Topology machine = flat_machine(6);
    for (Cpu& cpu : machine.cpus) cpu.cluster = static_cast<int>(cpu.id % 2);
    return machine;
}

TEST(Grouping, clusters_are_kept_together_on_request) {
    const Topology machine = two_clusters();
    EXPECT_THAT(groups_of(machine, 2), ElementsAre(CpuSet{0, 1, 2}, CpuSet{3, 4, 5}));
    EXPECT_THAT(group_evenly(machine, {.groups = 2, .keep_clusters = true}).groups,
                ElementsAre(CpuSet{0, 2, 4}, CpuSet{1, 3, 5}));
}

TEST(Grouping, fewer_groups_than_clusters_forget_the_clusters) {
    Topology machine = flat_machine(6);
    for (Cpu& cpu : machine.cpus) cpu.cluster = static_cast<int>(cpu.id % 3);
    EXPECT_EQ(group_evenly(machine, {.groups = 2, .keep_clusters = true}).groups, groups_of(machine, 2));
}

TEST(Grouping, a_cpu_in_no_cluster_forgets_the_clusters_of_its_node) {
    Topology machine = two_clusters();
    machine.cpus.back().cluster = kNone;
    EXPECT_EQ(group_evenly(machine, {.groups = 2, .keep_clusters = true}).groups, groups_of(machine, 2));
}

} // namespace
} // namespace viaduct::topology
