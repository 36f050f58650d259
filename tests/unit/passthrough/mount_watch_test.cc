// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mount_watch.h"

#include "unit/passthrough/share.h"

#include <sys/mount.h>

namespace viaduct::passthrough {
namespace {

constexpr std::string_view kMounts =
    "22 1 254:0 / / rw,relatime - ext4 /dev/root rw\n"
    "30 22 0:25 / /srv/local rw - tmpfs none rw\n"
    "31 22 0:26 / /srv/share/mnt rw,relatime shared:5 master:3 - nfs4 host:/x rw,vers=4.2\n"
    "32 22 0:27 / /srv/with\\040blank/\\134o rw - fuse.sshfs host: rw\n"
    "33 22 0:28 / /srv/dashed rw - tmpfs - rw\n";

TEST(MountWatch, remote_mounts_below_the_share_are_seen) {
    EXPECT_TRUE(remote_below(kMounts, "/srv/share"));
    EXPECT_TRUE(remote_below(kMounts, "/srv"));
    EXPECT_TRUE(remote_below(kMounts, "/"));
    EXPECT_TRUE(remote_below(kMounts, "/srv/with blank"));
}

TEST(MountWatch, other_mounts_do_not_count) {
    EXPECT_FALSE(remote_below(kMounts, "/srv/local"));
    EXPECT_FALSE(remote_below(kMounts, "/srv/dashed"));
    EXPECT_FALSE(remote_below(kMounts, "/srv/sha"));       // part of a name
    EXPECT_FALSE(remote_below(kMounts, "/srv/share/mnt")); // the share itself
    EXPECT_FALSE(remote_below(kMounts, "/srv/with blank/\\o"));
    EXPECT_FALSE(remote_below("", "/"));
    EXPECT_FALSE(remote_below("no line of that form", "/"));
    EXPECT_FALSE(remote_below("1 2 3", "/"));
}

TEST(MountWatch, nothing_is_certain_between_a_change_and_the_look_at_it) {
    const TempDir folder;
    const Fd share{::open(folder.path().c_str(), O_PATH | O_CLOEXEC)};
    MountWatch watch{share.get()};
    EXPECT_TRUE(watch.none_remote());
    static_cast<void>(watch.changed()); // by others, in this namespace
    watch.look();
    std::filesystem::create_directory(folder.path("point"));
    if (::mount("none", folder.path("point").c_str(), "tmpfs", 0, "") != 0)
        GTEST_SKIP() << "needs CAP_SYS_ADMIN";
    EXPECT_TRUE(watch.changed());
    EXPECT_FALSE(watch.none_remote());
    watch.look();
    EXPECT_TRUE(watch.none_remote()); // a tmpfs has no server
    EXPECT_EQ(::umount(folder.path("point").c_str()), 0);
    EXPECT_TRUE(watch.changed());
}

} // namespace
} // namespace viaduct::passthrough
