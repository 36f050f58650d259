// SPDX-License-Identifier: Apache-2.0
#include "guestvm/modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace viaduct::guestvm {
namespace {

using testing::ElementsAre;

constexpr const char* kDep =
    "kernel/fs/fuse/fuse.ko.xz:\n"
    "kernel/fs/fuse/virtiofs.ko.xz: kernel/virtio/virtio_ring.ko kernel/virtio/virtio.ko "
    "kernel/fs/fuse/fuse.ko.xz\n"
    "kernel/virtio/virtio_ring.ko: kernel/virtio/virtio.ko\n"
    "kernel/virtio/virtio.ko:\n"
    "kernel/virtio/virtio-blk.ko: kernel/virtio/virtio_ring.ko kernel/virtio/virtio.ko\n";
constexpr const char* kBuiltin = "kernel/fs/ext4/ext4.ko\nkernel/drivers/virtio/virtio-pci.ko\n";

TEST(Modules, dependencies_come_first_and_each_once) {
    const ModuleIndex index{kDep, kBuiltin};
    const auto order = index.load_order({"virtiofs", "virtio_blk"});
    ASSERT_TRUE(order);
    EXPECT_THAT(*order, ElementsAre("kernel/fs/fuse/fuse.ko.xz", "kernel/virtio/virtio.ko",
                                    "kernel/virtio/virtio_ring.ko", "kernel/fs/fuse/virtiofs.ko.xz",
                                    "kernel/virtio/virtio-blk.ko"));
}

TEST(Modules, what_is_built_in_is_left_out) {
    const ModuleIndex index{kDep, kBuiltin};
    const auto order = index.load_order({"ext4", "virtio_pci"});
    ASSERT_TRUE(order);
    EXPECT_TRUE(order->empty());
}

TEST(Modules, a_module_that_is_nowhere_is_named) {
    const ModuleIndex index{kDep, kBuiltin};
    const auto order = index.load_order({"virtiofs", "nfs"});
    ASSERT_FALSE(order);
    EXPECT_EQ(order.error().message, "the guest kernel has no module nfs");
}

TEST(Modules, empty_files_are_an_empty_index) {
    const ModuleIndex index{"", ""};
    EXPECT_TRUE(index.load_order({}));
    EXPECT_FALSE(index.load_order({"fuse"}));
}

TEST(Modules, names_have_no_folder_suffix_or_dash) {
    EXPECT_EQ(module_name("kernel/drivers/block/virtio-blk.ko.zst"), "virtio_blk");
    EXPECT_EQ(module_name("fuse"), "fuse");
}

} // namespace
} // namespace viaduct::guestvm
