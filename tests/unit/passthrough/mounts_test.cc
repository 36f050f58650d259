// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mounts.h"

#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <sys/stat.h>

namespace viaduct::passthrough {
namespace {

TEST(Mounts, servers_elsewhere_are_known_by_their_type) {
    for (const char* const type : {"nfs", "nfs4", "cifs", "smb3", "ceph", "9p", "fuse", "fuse.sshfs",
                                   "fuseblk", "virtiofs", "autofs", "lustre", "gpfs", "afs"})
        EXPECT_TRUE(is_remote_type(type)) << type;
    for (const char* const type : {"ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "f2fs", "nfsd", ""})
        EXPECT_FALSE(is_remote_type(type)) << type;
}

struct MountsTest : testing::Test {
    std::unique_ptr<MountTable> mounts = std::make_unique<MountTable>();
    Fd root{::open("/proc", O_PATH | O_CLOEXEC)};
    std::uint16_t local = mounts->resolve(root.get(), 77, 5);
};

TEST_F(MountsTest, one_number_per_mount_id) {
    EXPECT_NE(local, MountTable::kOverflow);
    EXPECT_EQ(mounts->resolve(root.get(), 77, 5), local);
    EXPECT_NE(mounts->resolve(root.get(), 78, 5), local);
}

TEST_F(MountsTest, mount_id_with_another_device_is_another_mount) {
    const auto other = mounts->resolve(root.get(), 77, 6);
    EXPECT_NE(other, local);
    EXPECT_EQ(mounts->resolve(root.get(), 77, 6), other);
    EXPECT_EQ(mounts->resolve(root.get(), 77, 5), local);
}

TEST_F(MountsTest, a_mount_not_yet_reached_is_served_off_the_worker) {
    EXPECT_GT(local, MountTable::kUnknown);
    EXPECT_FALSE(mounts->may_run_inline(MountTable::kUnknown, OpClass::lookup));
}

TEST_F(MountsTest, mounts_beyond_the_bound_are_served_off_the_worker) {
    for (std::uint64_t id = 100; id < 100 + 2 * MountTable::kMountsMax; ++id)
        mounts->resolve(root.get(), id, 5);
    const auto last = mounts->resolve(root.get(), 1'000'000, 5);
    EXPECT_EQ(last, MountTable::kOverflow);
    EXPECT_FALSE(mounts->may_run_inline(last, OpClass::attr));
    EXPECT_TRUE(mounts->may_run_inline(local, OpClass::attr));
}

TEST_F(MountsTest, slow_class_leaves_and_comes_back_after_fast_calls) {
    mounts->was_slow(local, OpClass::lookup);
    EXPECT_FALSE(mounts->may_run_inline(local, OpClass::lookup));
    EXPECT_TRUE(mounts->may_run_inline(local, OpClass::attr));
    for (std::uint32_t i = 0; i + 1 < kFastCallsToReturn; ++i)
        mounts->ran_away(local, OpClass::lookup, {.ns = 1000});
    EXPECT_FALSE(mounts->may_run_inline(local, OpClass::lookup));
    mounts->ran_away(local, OpClass::lookup, {.ns = 1000});
    EXPECT_TRUE(mounts->may_run_inline(local, OpClass::lookup));
}

TEST_F(MountsTest, call_that_is_not_fast_starts_the_count_again) {
    mounts->was_slow(local, OpClass::lookup);
    for (std::uint32_t i = 0; i + 1 < kFastCallsToReturn; ++i)
        mounts->ran_away(local, OpClass::lookup, {.ns = 1000});
    mounts->ran_away(local, OpClass::lookup, {.ns = kFastNs + 1});
    mounts->ran_away(local, OpClass::lookup, {.ns = 1000});
    EXPECT_FALSE(mounts->may_run_inline(local, OpClass::lookup));
}

TEST_F(MountsTest, only_calls_that_slept_keep_a_class_away) {
    const auto state = [&] {
        return mounts->at(local).classes[static_cast<std::size_t>(OpClass::lookup)].away_until_ns.load(
            std::memory_order_relaxed);
    };
    mounts->ran_away(local, OpClass::lookup, {.ns = 10 * kSlowNs, .slept = true});
    EXPECT_TRUE(
        mounts->may_run_inline(local, OpClass::lookup)); // none but the worker's own sleep sends it away
    mounts->was_slow(local, OpClass::lookup);
    const auto until = state();
    mounts->ran_away(local, OpClass::lookup, {.ns = 10 * kSlowNs});
    EXPECT_EQ(state(), until);
    mounts->ran_away(local, OpClass::lookup, {.ns = 10 * kSlowNs, .slept = true});
    EXPECT_GT(state(), until);
}

} // namespace
} // namespace viaduct::passthrough
