// SPDX-License-Identifier: Apache-2.0
#include "topology/queue_map.h"

#include "unit/topology/machines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::topology {
namespace {

using testing::ElementsAre;
using Source = QueueMap::Source;

// The queue of each possible CPU, by ascending id.
std::vector<VirtqueueIndex> queues_of(const Topology& machine, const QueueMap& map) {
    std::vector<VirtqueueIndex> queues;
    for (const Cpu& cpu : machine.cpus) queues.push_back(map.queue_of(cpu.id));
    return queues;
}

std::vector<VirtqueueIndex> mapped(const Topology& machine, const QueueMapOptions& options) {
    return queues_of(machine, QueueMap::make(machine, options));
}

TEST(QueueMap, request_queues_follow_hiprio) {
    EXPECT_THAT(mapped(flat_machine(4), {.queues = 2}), ElementsAre(1, 1, 2, 2));
}

TEST(QueueMap, request_queues_follow_the_notification_queue) {
    const Topology machine = flat_machine(4);
    const QueueMap map = QueueMap::make(machine, {.queues = 2, .notification = true});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(2, 2, 3, 3));
    EXPECT_EQ(map.cpus_of(3), (CpuSet{2, 3}));
    EXPECT_EQ(map.queue_of(99), 2) << "a CPU out of nowhere";
}

TEST(QueueMap, given_masks_come_before_grouping) {
    const Topology machine = flat_machine(4);
    const QueueMap map = QueueMap::make(machine, {.queues = 2, .masks = {{CpuSet{0, 3}}, {CpuSet{1, 2}}}});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 2, 2, 1));
    EXPECT_EQ(map.source(), Source::masks);
}

TEST(QueueMap, one_missing_mask_voids_all_masks) {
    const Topology machine = flat_machine(4);
    const QueueMapOptions options{.queues = 2, .masks = {{CpuSet{1, 3}}, std::nullopt}};
    const QueueMap map = QueueMap::make(machine, options);
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 1, 2, 2));
    EXPECT_EQ(map.source(), Source::grouping);
    EXPECT_EQ(QueueMap::make(machine, {.queues = 2, .masks = {{CpuSet{1, 3}}}}).source(), Source::grouping)
        << "too few masks";
}

TEST(QueueMap, a_mask_of_an_unused_queue_is_not_missed) {
    const Topology machine = flat_machine(2);
    const QueueMap map =
        QueueMap::make(machine, {.queues = 3, .masks = {{CpuSet{1}}, {CpuSet{0}}, std::nullopt}});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(2, 1));
}

TEST(QueueMap, a_cpu_in_two_masks_uses_the_later_queue) {
    EXPECT_THAT(mapped(flat_machine(3), {.queues = 2, .masks = {{CpuSet{0, 1}}, {CpuSet{1, 2}}}}),
                ElementsAre(1, 2, 2));
}

TEST(QueueMap, a_cpu_in_no_mask_uses_the_first_request_queue) {
    const Topology machine = flat_machine(4);
    const QueueMap map = QueueMap::make(machine, {.queues = 2, .masks = {{CpuSet{}}, {CpuSet{1}}}});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 2, 1, 1));
    EXPECT_EQ(map.cpus_of(1), (CpuSet{0, 2, 3}));
}

TEST(QueueMap, masks_may_name_cpus_that_the_machine_cannot_have) {
    const Topology machine = numa_machine({{0, 2}});
    const QueueMap map =
        QueueMap::make(machine, {.queues = 2, .masks = {{CpuSet{0}}, {CpuSet{1, 2, 3, 4000}}}});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 2));
    EXPECT_EQ(map.cpus_of(2), (CpuSet{2}));
}

TEST(QueueMap, queues_are_at_most_one_per_cpu_id) {
    EXPECT_EQ(QueueMap::make(flat_machine(4), {.queues = 64}).request_queues(), 4U);
    EXPECT_EQ(QueueMap::make(numa_machine({{0, 9}}), {.queues = 64}).request_queues(), 10U)
        << "ids count, not CPUs";
    EXPECT_EQ(QueueMap::make(with_present(flat_machine(8), {0}), {.queues = 64}).request_queues(), 8U)
        << "absent CPUs count";
    EXPECT_EQ(QueueMap::make(flat_machine(1), {.queues = 64}).request_queues(), 1U);
}

TEST(QueueMap, more_queues_than_cpus_leave_the_last_ones_idle) {
    const Topology machine = numa_machine({{0, 2, 4, 6}});
    const QueueMap map = QueueMap::make(machine, {.queues = 6});
    EXPECT_EQ(map.request_queues(), 6U);
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 2, 3, 4));
    EXPECT_TRUE(map.cpus_of(5).empty());
    EXPECT_TRUE(map.cpus_of(6).empty());
}

TEST(QueueMap, a_hole_uses_the_first_request_queue_and_is_listed_nowhere) {
    const Topology machine = numa_machine({{0, 2}});
    const QueueMap map = QueueMap::make(machine, {.queues = 2});
    EXPECT_EQ(map.queue_of(1), 1);
    EXPECT_EQ(map.cpus_of(1), (CpuSet{0}));
    EXPECT_EQ(map.cpus_of(2), (CpuSet{2}));
}

TEST(QueueMap, absent_cpus_are_mapped_before_they_come) {
    const Topology machine = with_present(flat_machine(8), {0, 1});
    EXPECT_THAT(mapped(machine, {.queues = 4}), ElementsAre(1, 2, 3, 3, 4, 4, 1, 2));
}

TEST(QueueMap, one_cpu_uses_one_queue) {
    EXPECT_THAT(mapped(flat_machine(1), {.queues = 1}), ElementsAre(1));
}

TEST(QueueMap, an_unknown_machine_uses_the_first_request_queue) {
    const QueueMap map = QueueMap::make(Topology{}, {.queues = 8});
    EXPECT_EQ(map.source(), Source::no_cpus);
    EXPECT_EQ(map.request_queues(), 1U);
    for (const CpuId cpu : {0U, 1U, 4000U}) EXPECT_EQ(map.queue_of(cpu), 1);
}

TEST(QueueMap, modulo_goes_by_cpu_id_alone) {
    const Topology machine = numa_machine({{0, 1, 5}, {6, 8}});
    const QueueMap map = QueueMap::make(
        machine, {.queues = 3, .policy = QueuePolicy::modulo, .masks = {{CpuSet{}}, {CpuSet{}}, {CpuSet{}}}});
    EXPECT_THAT(queues_of(machine, map), ElementsAre(1, 2, 3, 1, 3));
    EXPECT_EQ(map.source(), Source::modulo);
}

TEST(QueueMapOfAnyMachine, every_cpu_has_a_request_queue_and_the_lists_agree) {
    const std::uint64_t seed = random_seed();
    std::mt19937_64 random{seed};
    for (int round = 0; round < 300 && !HasFailure(); ++round) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", round " + std::to_string(round));
        const Topology machine = random_machine(random);
        const QueueMapOptions options{.queues = 1 + static_cast<unsigned>(random() % 600),
                                      .policy = random() % 4 == 0 ? QueuePolicy::modulo : QueuePolicy::even,
                                      .notification = random() % 2 == 0};
        const QueueMap map = QueueMap::make(machine, options);
        const VirtqueueIndex first = options.notification ? 2 : 1;
        std::size_t listed = 0;
        for (unsigned request = 0; request < map.request_queues(); ++request) {
            const auto queue = static_cast<VirtqueueIndex>(first + request);
            listed += map.cpus_of(queue).count();
            for (const CpuId cpu : map.cpus_of(queue)) EXPECT_EQ(map.queue_of(cpu), queue);
        }
        EXPECT_EQ(listed, machine.cpus.size());
        for (CpuId id = 0; id < machine.nr_cpu_ids() + 2; ++id) {
            EXPECT_GE(map.queue_of(id), first);
            EXPECT_LT(map.queue_of(id), first + map.request_queues());
        }
    }
}

} // namespace
} // namespace viaduct::topology
