// SPDX-License-Identifier: Apache-2.0
#include "unit/passthrough/share.h"

#include <sys/stat.h>
#include <sys/xattr.h>

namespace viaduct::passthrough {
namespace {

namespace stdfs = std::filesystem;

struct Attributes : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam(), .xattr = true}};

    Result<AttrReply> set(NodeId node, const SetAttr& change) {
        return share.call([&] { return share.fs->setattr(kRoot, node, change); });
    }
};
INSTANTIATE_TEST_SUITE_P(Modes, Attributes, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

TEST_P(Attributes, are_those_of_the_node_or_the_handle) {
    put(share.dir.path("f"), "12345");
    const NodeId node = share.node("f");
    const HandleId handle = share.handle("f", O_RDONLY);
    stdfs::remove(share.dir.path("f"));
    const auto by_node = share.getattr(node);
    const auto by_handle = share.call([&] { return share.fs->getattr(kRoot, node, handle); });
    ASSERT_TRUE(by_node);
    ASSERT_TRUE(by_handle);
    EXPECT_EQ(by_node->attr.size, 5U);
    EXPECT_EQ(by_node->attr.links, 0U);
    EXPECT_EQ(by_handle->attr.inode, by_node->attr.inode);
    EXPECT_EQ(share.call([&] { return share.fs->getattr(kRoot, node, HandleId{5}); }).error(), Errno{EBADF});
    EXPECT_EQ(share.getattr(NodeId{5}).error(), Errno{ESTALE});
}

TEST_P(Attributes, mode_owner_and_size_are_set) {
    put(share.dir.path("f"), "12345");
    const NodeId node = share.node("f");
    EXPECT_EQ(set(node, {.fields = SetAttr::mode_field, .mode = S_IFREG | 04711})->attr.mode & 07777, 04711U);
    const auto shorter = set(node, {.fields = SetAttr::size_field, .size = 2});
    ASSERT_TRUE(shorter);
    EXPECT_EQ(shorter->attr.size, 2U);
    EXPECT_EQ(set(node, {.fields = SetAttr::size_field, .size = 1ULL << 63}).error(), Errno{EFBIG});
    if (::geteuid() != 0) GTEST_SKIP() << "changing owners needs root";
    const auto owned = set(node, {.fields = SetAttr::uid_field | SetAttr::gid_field, .uid = 12, .gid = 34});
    ASSERT_TRUE(owned);
    EXPECT_EQ(owned->attr.uid, 12U);
    EXPECT_EQ(owned->attr.gid, 34U);
    EXPECT_EQ(owned->attr.mode & 07777, 0711U); // the host drops set-id bits with any change of owner
    EXPECT_EQ(set(node, {.fields = SetAttr::gid_field, .gid = 35})->attr.uid, 12U);
    const auto both =
        set(node, {.fields = SetAttr::uid_field | SetAttr::mode_field, .mode = 04755, .uid = 0});
    EXPECT_EQ(both->attr.mode & 07777, 04755U);
}

TEST_P(Attributes, size_through_a_handle_works_without_a_name_and_without_permission) {
    put(share.dir.path("f"), "12345");
    const NodeId node = share.node("f");
    const HandleId handle = share.handle("f", O_RDWR);
    const HandleId reader = share.handle("f", O_RDONLY);
    stdfs::remove(share.dir.path("f"));
    put(share.dir.path("f"), "another");
    const auto fields = SetAttr::size_field | SetAttr::handle_field;
    EXPECT_EQ(set(node, {.fields = fields, .handle = handle, .size = 3})->attr.size, 3U);
    EXPECT_EQ(set(node, {.fields = fields, .handle = reader, .size = 1})->attr.size, 1U);
    EXPECT_EQ(contents(share.dir.path("f")), "another");
}

TEST_P(Attributes, truncating_for_a_user_drops_set_id_bits) {
    put(share.dir.path("f"), "12345");
    const NodeId node = share.node("f");
    set(node, {.fields = SetAttr::mode_field, .mode = 06755}).value();
    const auto cut = set(node, {.fields = SetAttr::size_field | SetAttr::kill_suid_sgid, .size = 1});
    ASSERT_TRUE(cut);
    EXPECT_EQ(cut->attr.mode & 07777, 0755U);
}

TEST_P(Attributes, times_are_set_omitted_or_now_and_links_stamped_themselves) {
    put(share.dir.path("f"), "x");
    stdfs::create_symlink("f", share.dir.path("l"));
    const NodeId file = share.node("f");
    const NodeId link = share.node("l");
    const timespec old{.tv_sec = -1000, .tv_nsec = 123'456'789};
    const auto stamped = set(file, {.fields = SetAttr::accessed_field, .accessed = old});
    ASSERT_TRUE(stamped);
    EXPECT_EQ(stamped->attr.accessed.tv_sec, -1000);
    EXPECT_EQ(stamped->attr.accessed.tv_nsec, 123'456'789);
    EXPECT_NE(stamped->attr.modified.tv_sec, -1000);
    const auto now = set(file, {.fields = SetAttr::accessed_field | SetAttr::accessed_now, .accessed = old});
    EXPECT_LT(std::abs(now->attr.accessed.tv_sec - ::time(nullptr)), 5);
    const auto on_link = set(link, {.fields = SetAttr::modified_field, .modified = old});
    ASSERT_TRUE(on_link);
    EXPECT_EQ(on_link->attr.modified.tv_sec, -1000);
    EXPECT_NE(share.getattr(file)->attr.modified.tv_sec, -1000);
    const timespec lie{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    EXPECT_EQ(set(file, {.fields = SetAttr::modified_field, .modified = lie}).error(), Errno{EINVAL});
}

TEST_P(Attributes, special_files_are_changed_without_being_opened) {
    ASSERT_EQ(::mkfifo(share.dir.path("fifo").c_str(), 0600), 0);
    stdfs::create_symlink("gone", share.dir.path("link"));
    const NodeId fifo = share.node("fifo");
    const NodeId link = share.node("link");
    EXPECT_EQ(set(fifo, {.fields = SetAttr::mode_field, .mode = 0622})->attr.mode & 07777, 0622U);
    EXPECT_EQ(set(fifo, {.fields = SetAttr::size_field, .size = 1}).error(), Errno{EINVAL});
    EXPECT_EQ(set(kRootNode, {.fields = SetAttr::size_field, .size = 1}).error(), Errno{EISDIR});
    EXPECT_EQ(set(link, {.fields = SetAttr::mode_field, .mode = 0600}).error(), Errno{EOPNOTSUPP});
    std::byte value[10];
    EXPECT_EQ(share.call([&] { return share.fs->getxattr(kRoot, fifo, "user.x", value); }).error().value(),
              ENODATA);
}

TEST_P(Attributes, access_goes_by_the_mode_bits) {
    put(share.dir.path("f"), "x");
    ::chmod(share.dir.path("f").c_str(), 0640);
    const NodeId node = share.node("f");
    const auto ask = [&](Caller caller, std::uint32_t mask) {
        return share.call([&] { return share.fs->access(caller, node, mask); });
    };
    EXPECT_TRUE(ask(kRoot, R_OK | W_OK));
    EXPECT_EQ(ask(kRoot, X_OK).error(), Errno{EACCES});
    EXPECT_EQ(ask({.uid = 5, .gid = 5}, R_OK).error(), Errno{EACCES});
    EXPECT_TRUE(ask({.uid = 5, .gid = ::getegid()}, R_OK));
    EXPECT_EQ(ask({.uid = 5, .gid = ::getegid()}, W_OK).error(), Errno{EACCES});
}

TEST_P(Attributes, extended_attributes_are_set_listed_read_and_removed) {
    put(share.dir.path("f"), "x");
    const NodeId node = share.node("f");
    auto& fs = *share.fs;
    const std::string text = "value";
    const auto value = std::as_bytes(std::span{text});
    const auto set_it = share.call([&] { return fs.setxattr(kRoot, node, "user.key", value, 0); });
    if (!set_it && set_it.error() == Errno{EOPNOTSUPP}) GTEST_SKIP() << "no user attributes here";
    ASSERT_TRUE(set_it);
    EXPECT_EQ(share.call([&] { return fs.setxattr(kRoot, node, "user.key", value, XATTR_CREATE); }).error(),
              Errno{EEXIST});
    std::array<std::byte, 64> room{};
    EXPECT_EQ(share.call([&] { return fs.getxattr(kRoot, node, "user.key", {}); }), 5U);
    EXPECT_EQ(share.call([&] { return fs.getxattr(kRoot, node, "user.key", room); }), 5U);
    EXPECT_EQ(std::memcmp(room.data(), "value", 5), 0);
    EXPECT_EQ(
        share.call([&] { return fs.getxattr(kRoot, node, "user.key", std::span{room}.first(2)); }).error(),
        Errno{ERANGE});
    EXPECT_EQ(share.call([&] { return fs.listxattr(kRoot, node, {}); }), 9U);
    EXPECT_EQ(share.call([&] { return fs.listxattr(kRoot, node, room); }), 9U);
    EXPECT_EQ(std::memcmp(room.data(), "user.key", 9), 0);
    EXPECT_EQ(share.call([&] { return fs.listxattr(kRoot, node, std::span{room}.first(8)); }).error(),
              Errno{ERANGE});
    EXPECT_TRUE(share.call([&] { return fs.removexattr(kRoot, node, "user.key"); }));
    EXPECT_EQ(share.call([&] { return fs.getxattr(kRoot, node, "user.key", room); }).error(), Errno{ENODATA});
}

TEST_P(Attributes, acls_are_neither_stored_nor_listed) {
    put(share.dir.path("f"), "x");
    const NodeId node = share.node("f");
    std::array<std::byte, 64> acl{};
    const auto refused =
        share.call([&] { return share.fs->setxattr(kRoot, node, "system.posix_acl_access", acl, 0); });
    EXPECT_EQ(refused.error(), Errno{EOPNOTSUPP});
}

TEST_P(Attributes, those_of_a_symbolic_link_are_its_own) {
    put(share.dir.path("f"), "x");
    stdfs::create_symlink("f", share.dir.path("l"));
    const NodeId link = share.node("l");
    const std::string text = "v";
    const auto set_it = share.call(
        [&] { return share.fs->setxattr(kRoot, link, "trusted.key", std::as_bytes(std::span{text}), 0); });
    if (!set_it) GTEST_SKIP() << "needs CAP_SYS_ADMIN and trusted attributes";
    char value[8];
    EXPECT_EQ(::lgetxattr(share.dir.path("l").c_str(), "trusted.key", value, sizeof value), 1);
    EXPECT_LT(::lgetxattr(share.dir.path("f").c_str(), "trusted.key", value, sizeof value), 0);
}

TEST(PassthroughXattr, acls_are_served_where_clients_enforce_them) {
    Share share{{.xattr = true, .posix_acl = true}};
    put(share.dir.path("f"), "x");
    const NodeId node = share.node("f");
    // Version; rw- for the owner, --- for user 1, r-- for the group, the mask and others.
    constexpr std::uint32_t kNoId = UINT32_MAX;
    const std::uint32_t acl[]{2, 0x6'0001, kNoId, 2, 1, 0x4'0004, kNoId, 0x4'0010, kNoId, 0x4'0020, kNoId};
    constexpr const char* kName = "system.posix_acl_access";
    const auto value = std::as_bytes(std::span{acl});
    const auto set_it = share.call([&] { return share.fs->setxattr(kRoot, node, kName, value, 0); });
    if (!set_it && set_it.error() == Errno{EOPNOTSUPP}) GTEST_SKIP() << "needs a file system with ACLs";
    ASSERT_TRUE(set_it);
    std::array<std::byte, 64> room{};
    EXPECT_EQ(share.call([&] { return share.fs->getxattr(kRoot, node, kName, room); }), sizeof acl);
    EXPECT_EQ(share.call([&] { return share.fs->listxattr(kRoot, node, {}); }), std::strlen(kName) + 1);
    EXPECT_TRUE(share.call([&] { return share.fs->removexattr(kRoot, node, kName); }));
    EXPECT_EQ(share.call([&] { return share.fs->listxattr(kRoot, node, {}); }), 0U);
}

TEST(PassthroughXattr, is_off_unless_asked_for) {
    Share share;
    std::byte value[10];
    EXPECT_EQ(share.call([&] { return share.fs->getxattr(kRoot, kRootNode, "user.x", value); }).error(),
              Errno{EOPNOTSUPP});
    EXPECT_EQ(share.call([&] { return share.fs->listxattr(kRoot, kRootNode, value); }).error(),
              Errno{EOPNOTSUPP});
}

TEST(PassthroughCache, policies_decide_validity_and_open_flags) {
    using namespace std::chrono_literals;
    struct Case {
        CachePolicy policy;
        Validity validity;
        bool direct_io;
        bool keep_cache;
        bool cache_dir;
    };
    for (const Case& wanted : {Case{CachePolicy::never, 0s, true, false, false},
                               Case{CachePolicy::metadata, 24h, true, false, true},
                               Case{CachePolicy::automatic, 1s, false, false, false},
                               Case{CachePolicy::always, 24h, false, true, true}}) {
        Share share{{.cache = wanted.policy}};
        put(share.dir.path("f"), "x");
        const auto entry = share.lookup(kRootNode, "f");
        const auto file = share.open(entry->node, O_RDONLY);
        const auto dir = share.call([&] { return share.fs->opendir(kRoot, kRootNode); });
        EXPECT_EQ(entry->entry_valid, wanted.validity);
        EXPECT_EQ(entry->attr_valid, wanted.validity);
        EXPECT_EQ(share.getattr(entry->node)->attr_valid, wanted.validity);
        EXPECT_EQ(file->direct_io, wanted.direct_io);
        EXPECT_EQ(file->keep_cache, wanted.keep_cache);
        EXPECT_EQ(dir->cache_dir, wanted.cache_dir);
    }
}

} // namespace
} // namespace viaduct::passthrough
