// SPDX-License-Identifier: Apache-2.0
#include "topology/machine.h"

#include "unit/topology/machines.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace viaduct::topology {
namespace {

using testing::HasSubstr;

// Four CPUs in two cores on one NUMA node; the complete sets name four more that have no object.
constexpr const char* kWithAbsentCpus = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000000f" complete_cpuset="0x000000ff" allowed_cpuset="0x0000000f" nodeset="0x00000001" complete_nodeset="0x00000001" allowed_nodeset="0x00000001" gp_index="1">
    <object type="NUMANode" os_index="0" cpuset="0x0000000f" complete_cpuset="0x000000ff" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="2" local_memory="1073741824"/>
    <object type="Core" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3">
      <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"/>
      <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
    </object>
    <object type="Core" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="6">
      <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="7"/>
      <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008" nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="8"/>
    </object>
  </object>
</topology>
)";

class XmlFile {
public:
    explicit XmlFile(const char* text)
        : path_(std::filesystem::temp_directory_path() /
                ("viaduct-machine-" + std::to_string(::getpid()) + ".xml")) {
        std::ofstream{path_} << text;
    }
    ~XmlFile() { std::filesystem::remove(path_); }
    XmlFile(const XmlFile&) = delete;
    XmlFile& operator=(const XmlFile&) = delete;
    std::string path() const { return path_.string(); }

private:
    std::filesystem::path path_;
};

TEST(Machine, a_description_gives_nodes_cores_and_siblings) {
    const auto machine = synthetic_machine("NUMANode:4 Core:4 PU:2");
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->possible().list_text(), "0-31");
    EXPECT_EQ(machine->online(), machine->possible());
    EXPECT_EQ(machine->numa_nodes().size(), 4U);
    EXPECT_EQ(machine->cpus_of_node(1).list_text(), "8-15");
    EXPECT_EQ(machine->find(8)->core, machine->find(9)->core);
    EXPECT_NE(machine->find(9)->core, machine->find(10)->core);
}

TEST(Machine, indexes_make_holes) {
    const auto machine = synthetic_machine("NUMANode:2 Core:2 PU:1(indexes=0,2,4,9)");
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->possible().list_text(), "0,2,4,9");
    EXPECT_EQ(machine->nr_cpu_ids(), 10U);
    EXPECT_EQ(machine->cpus_of_node(1).list_text(), "4,9");
    EXPECT_EQ(machine->find(3), nullptr);
}

TEST(Machine, caches_give_clusters) {
    const auto machine = synthetic_machine("NUMANode:1 L3:2 L2:2 Core:2 PU:1");
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->find(0)->cluster, machine->find(1)->cluster);
    EXPECT_NE(machine->find(1)->cluster, machine->find(2)->cluster);
    EXPECT_EQ(machine->find(0)->l3, machine->find(3)->l3);
    EXPECT_NE(machine->find(3)->l3, machine->find(4)->l3);
    EXPECT_EQ(synthetic_machine("Core:2 PU:1")->find(0)->cluster, kNone);
}

TEST(Machine, five_hundred_and_twelve_cpus_on_four_nodes) {
    const auto machine = synthetic_machine("NUMANode:4 Core:64 PU:2");
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->cpus.size(), 512U);
    EXPECT_EQ(machine->cpus_of_node(3).list_text(), "384-511");
}

TEST(Machine, what_is_no_description_is_refused_with_an_example) {
    for (const char* text : {"", "four cores", "PU", "NUMANode:0 PU:2", "PU:2 Core:2"}) {
        const auto machine = synthetic_machine(text);
        ASSERT_FALSE(machine) << text;
        EXPECT_THAT(machine.error().message, HasSubstr("NUMANode:2 Core:4 PU:2"));
    }
}

TEST(Machine, more_cpus_than_linux_can_have_are_refused_before_they_are_built) {
    for (const char* text :
         {"Core:100000 PU:100000", "NUMANode:4 Core:4096 PU:2", "99999999999999999999 2"}) {
        const auto machine = synthetic_machine(text);
        ASSERT_FALSE(machine) << text;
        EXPECT_THAT(machine.error().message, HasSubstr("8192"));
    }
    EXPECT_THAT(synthetic_machine("PU:2(indexes=0,9000)").error().message, HasSubstr("8191"));
    EXPECT_TRUE(synthetic_machine("NUMANode:2(memory=1099511627776) Core:4 PU:2")) << "not a count";
}

TEST(Machine, xml_tells_absent_cpus) {
    const XmlFile file{kWithAbsentCpus};
    const auto machine = xml_machine(file.path());
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_EQ(machine->possible().list_text(), "0-7");
    EXPECT_EQ(machine->present().list_text(), "0-3");
    EXPECT_EQ(machine->online().list_text(), "0-3");
    EXPECT_EQ(machine->find(2)->core, machine->find(3)->core);
    EXPECT_EQ(machine->find(7)->core, kNone);
    EXPECT_EQ(machine_of(file.path()), *machine);
}

TEST(Machine, xml_that_is_none_is_refused) {
    const XmlFile file{"hello"};
    const auto machine = xml_machine(file.path());
    ASSERT_FALSE(machine);
    EXPECT_THAT(machine.error().message, HasSubstr("lstopo"));
    EXPECT_THAT(machine_of("/nowhere/machine.xml").error().message, HasSubstr("ENOENT"));
}

TEST(Machine, states_add_drop_and_mark_cpus) {
    Topology machine = flat_machine(4, {2});
    set_states(machine, {.possible = {0, 1, 2, 6}, .present = {0, 1, 2}, .online = {0, 2, 6}}, 0);
    EXPECT_EQ(machine.possible(), (CpuSet{0, 1, 2, 6}));
    EXPECT_EQ(machine.present(), (CpuSet{0, 1, 2}));
    EXPECT_EQ(machine.online(), (CpuSet{0, 2})) << "an absent CPU cannot be online";
    EXPECT_EQ(machine.find(1)->core, kNone) << "an offline CPU has no siblings";
    EXPECT_EQ(machine.find(2)->core, 0);
}

TEST(Machine, this_machine_has_the_cpu_that_runs_the_test) {
    const auto machine = this_machine();
    ASSERT_TRUE(machine) << machine.error().message;
    EXPECT_TRUE(machine->online().contains(static_cast<CpuId>(::sched_getcpu())));
}

} // namespace
} // namespace viaduct::topology
