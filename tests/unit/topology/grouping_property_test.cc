// SPDX-License-Identifier: Apache-2.0
//
// Even grouping: what holds on any machine.  A failure prints the seed; VIADUCT_SEED repeats it.
#include "topology/grouping.h"

#include "topology/machine.h"
#include "unit/topology/machines.h"

#include <gtest/gtest.h>
#include <map>
#include <set>
#include <string>

namespace viaduct::topology {
namespace {

struct Case {
    Topology machine;
    unsigned groups;
    bool keep_clusters;

    Grouping grouping() const {
        return group_evenly(machine, {.groups = groups, .keep_clusters = keep_clusters});
    }
};

std::string described(const Case& one) {
    return std::to_string(one.machine.cpus.size()) + " CPUs, " +
           std::to_string(one.machine.numa_nodes().size()) + " NUMA nodes, " + std::to_string(one.groups) +
           " groups" + (one.keep_clusters ? ", clusters" : "");
}

// Runs `check` on many machines, each with few and with many groups.
template <class Check> void on_random_machines(Check check) {
    const std::uint64_t seed = random_seed();
    std::mt19937_64 random{seed};
    for (int round = 0; round < 300; ++round) {
        Case one{.machine = random_machine(random), .groups = 1, .keep_clusters = random() % 2 == 0};
        const unsigned most = one.machine.nr_cpu_ids() + 3;
        for (const unsigned limit : {6U, most}) {
            one.groups = 1 + static_cast<unsigned>(random() % limit);
            SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round) + ": " +
                         described(one));
            check(one);
            if (testing::Test::HasFailure()) return;
        }
    }
}

// A machine whose CPUs are all present is dealt out in one go.
Case all_present(Case one) {
    one.machine = with_present(std::move(one.machine), one.machine.possible());
    return one;
}

TEST(GroupingOfAnyMachine, each_possible_cpu_is_in_one_group) {
    on_random_machines([](const Case& one) {
        CpuSet seen;
        std::size_t count = 0;
        for (const CpuSet& group : one.grouping().groups) {
            seen |= group;
            count += group.count();
        }
        EXPECT_EQ(seen, one.machine.possible());
        EXPECT_EQ(count, one.machine.cpus.size());
    });
}

TEST(GroupingOfAnyMachine, the_first_groups_have_cpus_and_the_others_none) {
    on_random_machines([](const Case& one) {
        const Grouping grouping = one.grouping();
        ASSERT_EQ(grouping.groups.size(), one.groups);
        EXPECT_EQ(grouping.filled, std::min<std::size_t>(one.groups, one.machine.cpus.size()));
        for (unsigned group = 0; group < one.groups; ++group)
            EXPECT_EQ(grouping.groups[group].empty(), group >= grouping.filled) << "group " << group;
    });
}

TEST(GroupingOfAnyMachine, few_groups_split_no_numa_node_and_many_mix_none) {
    on_random_machines([](const Case& given) {
        const Case one = all_present(given);
        const auto nodes = one.machine.numa_nodes();
        for (const CpuSet& group : one.grouping().groups) {
            std::size_t touched = 0;
            for (const CpuId node : nodes) {
                const CpuSet cpus = one.machine.cpus_of_node(node);
                const CpuSet common = cpus & group;
                touched += common.empty() ? 0 : 1;
                if (one.groups <= nodes.size() && !common.empty()) EXPECT_EQ(common, cpus) << "node " << node;
            }
            if (one.groups > nodes.size()) EXPECT_LE(touched, 1U) << group.list_text();
        }
    });
}

TEST(GroupingOfAnyMachine, group_sizes_within_a_numa_node_differ_by_at_most_one) {
    on_random_machines([](const Case& given) {
        Case one = all_present(given);
        one.keep_clusters = false;
        for (const CpuId node : one.machine.numa_nodes()) {
            if (one.groups <= one.machine.numa_nodes().size()) continue;
            std::set<std::size_t> sizes;
            for (const CpuSet& group : one.grouping().groups) {
                const CpuSet part = group & one.machine.cpus_of_node(node);
                if (!part.empty()) sizes.insert(part.count());
            }
            ASSERT_FALSE(sizes.empty()) << "each NUMA node gets a group";
            EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1U) << "node " << node;
        }
    });
}

TEST(GroupingOfAnyMachine, a_group_boundary_cuts_at_most_one_core) {
    on_random_machines([](const Case& given) {
        Case one = all_present(given);
        one.keep_clusters = false;
        const Grouping grouping = one.grouping();
        if (one.groups <= one.machine.numa_nodes().size()) return;
        std::map<int, std::set<unsigned>> groups_of_core;
        for (unsigned group = 0; group < grouping.filled; ++group)
            for (const CpuId cpu : grouping.groups[group])
                groups_of_core[one.machine.find(cpu)->core].insert(group);
        std::size_t cuts = 0;
        for (const auto& [core, groups] : groups_of_core) cuts += groups.size() - 1;
        // The boundary between two NUMA nodes cuts none.
        EXPECT_LE(cuts, grouping.filled - one.machine.numa_nodes().size());
    });
}

TEST(GroupingOfAnyMachine, enough_groups_never_reach_over_two_clusters) {
    on_random_machines([](const Case& given) {
        Case one = all_present(given);
        one.keep_clusters = true;
        for (Cpu& cpu : one.machine.cpus) cpu.numa_node = 0;
        std::set<int> clusters;
        for (const Cpu& cpu : one.machine.cpus) clusters.insert(cpu.cluster);
        one.groups = std::max(one.groups, static_cast<unsigned>(clusters.size()));
        for (const CpuSet& group : one.grouping().groups) {
            std::set<int> touched;
            for (const CpuId cpu : group) touched.insert(one.machine.find(cpu)->cluster);
            EXPECT_LE(touched.size(), 1U) << group.list_text();
        }
    });
}

TEST(GroupingOfAnyMachine, absent_cpus_do_not_move_present_ones) {
    on_random_machines([](const Case& one) {
        const Case without{only_present(one.machine), one.groups, one.keep_clusters};
        const CpuSet present = one.machine.present();
        const auto with_absent = one.grouping().groups;
        const auto expected = without.grouping().groups;
        for (unsigned group = 0; group < one.groups; ++group)
            EXPECT_EQ(with_absent[group] & present, expected[group]) << "group " << group;
    });
}

TEST(GroupingOfSyntheticMachines, whole_cores_stay_whole_when_groups_divide_them) {
    for (const unsigned nodes : {1U, 2U, 4U}) {
        for (const unsigned cores : {4U, 16U, 64U}) {
            const std::string text =
                "NUMANode:" + std::to_string(nodes) + " Core:" + std::to_string(cores) + " PU:2";
            SCOPED_TRACE(text);
            const auto machine = synthetic_machine(text);
            ASSERT_TRUE(machine) << machine.error().message;
            ASSERT_EQ(machine->cpus.size(), std::size_t{nodes} * cores * 2);
            const Grouping grouping = group_evenly(*machine, {.groups = nodes * cores});
            for (const CpuSet& group : grouping.groups) {
                ASSERT_EQ(group.count(), 2U);
                EXPECT_EQ(machine->find(*group.first())->core, machine->find(*group.last())->core);
            }
        }
    }
}

} // namespace
} // namespace viaduct::topology
