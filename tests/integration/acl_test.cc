// SPDX-License-Identifier: Apache-2.0
//
// ACLs of a mount: who enforces them, what they do to the mode, and what is there without --posix-acl.
#include "support/truth.h"

#include <array>
#include <sys/xattr.h>

namespace viaduct::test {
namespace {

constexpr gid_t kGroup = 12345;
constexpr std::uint32_t kNoId = UINT32_MAX;

// A list as setfacl(1) stores it: version, and entries of tag, permission and id.
std::string acl(std::initializer_list<std::array<std::uint32_t, 3>> entries) {
    std::string value("\2\0\0\0", 4);
    for (const auto& [tag, permission, id] : entries) {
        const std::uint16_t shorts[2]{static_cast<std::uint16_t>(tag),
                                      static_cast<std::uint16_t>(permission)};
        value.append(reinterpret_cast<const char*>(shorts), sizeof shorts);
        value.append(reinterpret_cast<const char*>(&id), sizeof id);
    }
    return value;
}
// rwx for the owner, `permission` for one user, r-x for group and others.
std::string acl_with(std::uint32_t uid, std::uint32_t permission) {
    return acl({{1, 7, kNoId}, {2, permission, uid}, {4, 5, kNoId}, {16, 7, kNoId}, {32, 5, kNoId}});
}
int set(const std::string& path, const char* name, const std::string& value) {
    return ::setxattr(path.c_str(), name, value.data(), value.size(), 0);
}

class Acls : public Truth {
protected:
    void start_with(std::vector<std::string> options) {
        ASSERT_NO_FATAL_FAILURE(start(std::move(options)));
        if (set(native, "system.posix_acl_access", acl_with(1, 7)) != 0)
            GTEST_SKIP() << "the file system of the temporary folder has no ACLs: " << Errno{errno}.name();
        ASSERT_EQ(::removexattr(native.c_str(), "system.posix_acl_access"), 0);
        ASSERT_EQ(::chmod(native.c_str(), 0777), 0);
    }
};
INSTANTIATE_TEST_SUITE_P(Cache, Acls, each_cache_mode(), cache_mode_name);

TEST_P(Acls, without_the_option_there_are_none) {
    start_with({});
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(set(behind, "system.posix_acl_default", acl_with(1, 7)), 0);
    EXPECT_EQ(set(through, "system.posix_acl_access", acl_with(1, 7)), -1);
    EXPECT_EQ(errno, EOPNOTSUPP);
    EXPECT_EQ(::listxattr(through.c_str(), nullptr, 0), 0);
}

TEST_P(Acls, are_enforced_listed_changed_and_removed) {
    start_with({"--posix-acl"});
    if (IsSkipped() || HasFatalFailure()) return;
    compare([](const std::string& folder, Transcript& transcript) {
        const std::string path = folder + "/file";
        put(path, "x");
        for (const std::uint32_t permission : {0U, 4U, 6U}) {
            transcript.call("set", set(path, "system.posix_acl_access", acl_with(kNobody, permission)));
            transcript.line("status", status_text(path));
            transcript.count("list", ::listxattr(path.c_str(), nullptr, 0));
            transcript.append(as_user({.uid = kNobody, .gid = kNobody}, [&](Transcript& inner) {
                for (const int flags : {O_RDONLY, O_WRONLY}) {
                    const Fd file{::open(path.c_str(), flags | O_CLOEXEC)};
                    inner.line("open", file ? "done" : Errno{errno}.name());
                }
            }));
            transcript.call("chmod", ::chmod(path.c_str(), 0740));
            char value[256];
            transcript.count("get", ::getxattr(path.c_str(), "system.posix_acl_access", value, sizeof value));
        }
        transcript.call("remove", ::removexattr(path.c_str(), "system.posix_acl_access"));
        transcript.count("list", ::listxattr(path.c_str(), nullptr, 0));
        transcript.call("default", set(path, "system.posix_acl_default", acl_with(1, 7)));
        transcript.line("status", status_text(path));
    });
}

TEST_P(Acls, set_group_id_is_lost_where_the_owner_is_not_of_the_group) {
    start_with({"--posix-acl"});
    if (IsSkipped() || HasFatalFailure()) return;
    compare([](const std::string& folder, Transcript& transcript) {
        int number = 0;
        for (const gid_t group : {gid_t{0}, kGroup, kNobody}) {
            for (const char* const name : {"system.posix_acl_access", "system.posix_acl_default"}) {
                const std::string path = folder + "/" + std::to_string(number++);
                ::mkdir(path.c_str(), 0755);
                ::chown(path.c_str(), kNobody, group);
                ::chmod(path.c_str(), 02755);
                transcript.append(as_user({.uid = kNobody, .gid = kNobody}, [&](Transcript& inner) {
                    inner.call("set", set(path, name, acl_with(1, 7)));
                }));
                transcript.line("status", status_text(path));
            }
        }
    });
}

// The host makes use of them, so they are not kept under the names that a map has for others.
TEST_P(Acls, go_past_the_map_of_names) {
    start_with({"--posix-acl", "--xattrmap", ":map::user.virtiofs.:"});
    if (IsSkipped() || HasFatalFailure()) return;
    ASSERT_EQ(set(through, "system.posix_acl_default", acl_with(1, 7)), 0) << Errno{errno}.name();
    EXPECT_GT(::getxattr(behind.c_str(), "system.posix_acl_default", nullptr, 0), 0);
    EXPECT_GT(::listxattr(through.c_str(), nullptr, 0), 0);
    EXPECT_EQ(::removexattr(through.c_str(), "system.posix_acl_default"), 0);
    EXPECT_EQ(::getxattr(behind.c_str(), "system.posix_acl_default", nullptr, 0), -1);
}

} // namespace
} // namespace viaduct::test
