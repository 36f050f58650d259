// SPDX-License-Identifier: Apache-2.0
#include "guestvm/qemu.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace viaduct::guestvm {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

QemuPlan plan() {
    return {.program = "qemu-system-x86_64",
            .version_major = 7,
            .cpus = 4,
            .request_queues = 4,
            .tag = "share",
            .vhost_socket = "/run/s.sock",
            .kernel = "/k",
            .initrd = "/i",
            .kernel_command_line = "quiet"};
}

std::string after(const std::vector<std::string>& argv, std::string_view option) {
    const auto at = std::ranges::find(argv, option);
    return at == argv.end() ? "" : *(at + 1);
}

TEST(Qemu, device_has_tag_and_request_queues_and_memory_is_shared) {
    const auto argv = qemu_command(plan());
    EXPECT_THAT(argv, Contains("vhost-user-fs-pci,chardev=share,tag=share,num-request-queues=4"));
    EXPECT_THAT(argv, Contains("memory-backend-memfd,id=memory,share=on,size=512M"));
    EXPECT_THAT(argv, Contains("-no-reboot"));
    EXPECT_EQ(after(argv, "-smp"), "4");
}

TEST(Qemu, cmpxchg16b_is_hidden_under_emulation_before_version_8) {
    QemuPlan old = plan();
    EXPECT_EQ(after(qemu_command(old), "-cpu"), "max,-cx16");
    old.version_major = 10;
    EXPECT_EQ(after(qemu_command(old), "-cpu"), "max");
    old.version_major = 7;
    old.kvm = true;
    EXPECT_EQ(after(qemu_command(old), "-cpu"), "host");
    EXPECT_THAT(after(qemu_command(old), "-machine"), HasSubstr("accel=kvm"));
}

TEST(Qemu, commas_in_values_do_not_start_options) {
    QemuPlan with_commas = plan();
    with_commas.vhost_socket = "/a,b";
    with_commas.root_disk = "/d,readonly=off";
    const auto argv = qemu_command(with_commas);
    EXPECT_THAT(argv, Contains("socket,id=share,path=/a,,b"));
    EXPECT_THAT(argv, Contains("if=none,id=root,format=raw,readonly=on,file=/d,,readonly=off"));
}

TEST(Qemu, packed_and_reboot_only_when_asked_for) {
    EXPECT_THAT(qemu_command(plan()), Not(Contains(HasSubstr("packed"))));
    QemuPlan other = plan();
    other.packed = true;
    other.exits_on_reboot = false;
    EXPECT_THAT(qemu_command(other), Contains(HasSubstr(",packed=on")));
    EXPECT_THAT(qemu_command(other), Not(Contains("-no-reboot")));
}

TEST(Qemu, version_is_read_from_its_own_words) {
    EXPECT_EQ(qemu_version_major("QEMU emulator version 7.2.22 (Debian 1:7.2)\nCopyright"), 7U);
    EXPECT_EQ(qemu_version_major("QEMU emulator version 10.0.13"), 10U);
    EXPECT_EQ(qemu_version_major("something else"), 0U);
}

} // namespace
} // namespace viaduct::guestvm
