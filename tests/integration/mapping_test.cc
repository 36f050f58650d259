// SPDX-License-Identifier: Apache-2.0
//
// Ids and names of extended attributes that mean something else on the host, seen by a real client.
#include "support/mounted_share.h"

#include <sys/stat.h>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

class Mapping : public testing::Test {
protected:
    void SetUp() override {
        if (const std::string reason = no_mounts_because(); !reason.empty()) GTEST_SKIP() << reason;
        ::umask(0);
    }
    static std::pair<uid_t, gid_t> owner(const std::string& path) {
        struct stat status{};
        EXPECT_EQ(::lstat(path.c_str(), &status), 0) << path;
        return {status.st_uid, status.st_gid};
    }
    static void make_file(const std::string& path) {
        const Fd file{::open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644)};
        ASSERT_TRUE(file) << path;
    }
    static std::string value(const std::string& path, const char* name) {
        char text[64];
        const ssize_t bytes = ::lgetxattr(path.c_str(), name, text, sizeof text);
        return bytes < 0 ? Errno{errno}.name() : std::string(text, static_cast<std::size_t>(bytes));
    }
    static int set(const std::string& path, const char* name, std::string_view text) {
        return ::lsetxattr(path.c_str(), name, text.data(), text.size(), 0) == 0 ? 0 : errno;
    }

    MountedShare mounted;
    using Owner = std::pair<uid_t, gid_t>;
};

TEST_F(Mapping, users_and_groups_of_the_client_are_others_on_the_host) {
    ASSERT_TRUE(mounted.mount({"--translate-uid", "map:0:3000:1", "--translate-uid",
                               "squash-guest:10:3001:90", "--translate-uid", "forbid-guest:100:10",
                               "--translate-gid=guest:0:4000:50", "--translate-gid=squash-host:4000:7:50"}));
    const std::string inside = mounted.in_mount("file");
    const std::string outside = mounted.in_share("file");
    make_file(inside);
    EXPECT_EQ(owner(outside), (Owner{3000, 4000}));
    EXPECT_EQ(owner(inside), (Owner{0, 7}));

    ASSERT_EQ(::mkdir(mounted.in_mount("folder").c_str(), 0755), 0);
    EXPECT_EQ(owner(mounted.in_share("folder")), (Owner{3000, 4000}));
    ASSERT_EQ(::symlink("nowhere", mounted.in_mount("link").c_str()), 0);
    EXPECT_EQ(owner(mounted.in_share("link")), (Owner{3000, 4000}));

    ASSERT_EQ(::chown(inside.c_str(), 20, 30), 0);
    EXPECT_EQ(owner(outside), (Owner{3001, 4030}));
    EXPECT_EQ(owner(inside), (Owner{3001, 7}));
    ASSERT_EQ(::chown(outside.c_str(), 0, 0), 0);
    EXPECT_EQ(::chown(inside.c_str(), 105, 0), -1);
    EXPECT_EQ(errno, EPERM);
    EXPECT_EQ(owner(outside), (Owner{0, 0}));
}

TEST_F(Mapping, attributes_of_the_client_are_kept_under_other_names) {
    ASSERT_TRUE(mounted.mount({"--xattrmap", ":map:trusted.:user.virtiofs.:"}));
    const std::string inside = mounted.in_mount("file");
    const std::string outside = mounted.in_share("file");
    make_file(inside);
    if (set(outside, "user.probe", "1") != 0) GTEST_SKIP() << "the test's folder has no user attributes";
    ASSERT_EQ(set(outside, "trusted.of_the_host", "hidden"), 0);

    EXPECT_EQ(set(inside, "trusted.overlay.opaque", "y"), 0);
    EXPECT_EQ(value(outside, "user.virtiofs.trusted.overlay.opaque"), "y");
    EXPECT_EQ(value(inside, "trusted.overlay.opaque"), "y");
    EXPECT_EQ(value(inside, "trusted.of_the_host"), "ENODATA");
    EXPECT_EQ(set(inside, "user.virtiofs.trusted.overlay.opaque", "n"), EPERM);
    EXPECT_EQ(value(inside, "user.probe"), "1");

    char names[256];
    const ssize_t bytes = ::llistxattr(inside.c_str(), names, sizeof names);
    ASSERT_GT(bytes, 0);
    EXPECT_EQ(::llistxattr(inside.c_str(), nullptr, 0), bytes);
    const std::string list(names, static_cast<std::size_t>(bytes));
    EXPECT_NE(list.find(std::string{"trusted.overlay.opaque\0", 23}), list.npos);
    EXPECT_EQ(list.find("virtiofs"), list.npos);
    EXPECT_EQ(list.find("of_the_host"), list.npos);

    EXPECT_EQ(::lremovexattr(inside.c_str(), "trusted.overlay.opaque"), 0);
    EXPECT_EQ(value(outside, "user.virtiofs.trusted.overlay.opaque"), "ENODATA");
}

// Kept under another name, the host does not drop them at a write as it does its own.
TEST_F(Mapping, capabilities_under_another_name_are_dropped_by_a_write) {
    ASSERT_TRUE(mounted.mount({"--xattrmap", ":map::user.virtiofs.:"}));
    const std::string inside = mounted.in_mount("file");
    make_file(inside);
    if (set(mounted.in_share("file"), "user.probe", "1") != 0)
        GTEST_SKIP() << "the test's folder has no user attributes";
    // VFS_CAP_REVISION_2, effective: CAP_NET_RAW permitted.
    const std::string_view capability{"\1\0\0\2\0\40\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 20};
    ASSERT_EQ(set(inside, "security.capability", capability), 0);
    EXPECT_EQ(value(mounted.in_share("file"), "user.virtiofs.security.capability").size(), 20U);

    const Fd file{::open(inside.c_str(), O_WRONLY | O_CLOEXEC)};
    ASSERT_EQ(::write(file.get(), "x", 1), 1);
    EXPECT_EQ(value(mounted.in_share("file"), "user.virtiofs.security.capability"), "ENODATA");
}

} // namespace
} // namespace viaduct::test
