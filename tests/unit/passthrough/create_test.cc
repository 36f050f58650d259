// SPDX-License-Identifier: Apache-2.0
#include "rt/thread.h"
#include "unit/passthrough/share.h"

#include <csignal>
#include <linux/capability.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <thread>

namespace viaduct::passthrough {
namespace {

namespace stdfs = std::filesystem;

constexpr Caller kUser{.uid = 1234, .gid = 2345, .pid = 1};

struct stat host(const std::string& path) {
    struct stat st{};
    EXPECT_EQ(::lstat(path.c_str(), &st), 0) << path;
    return st;
}

struct Create : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam()}};

    Result<Created> create(const Caller& caller, std::string_view child, int flags, std::uint32_t mode,
                           std::uint32_t umask = 0, bool kill_suid_sgid = false) {
        return share.call([&] {
            return share.fs->create(caller, kRootNode, name(child),
                                    static_cast<std::uint32_t>(flags | O_CREAT), mode, umask, kill_suid_sgid);
        });
    }
    Result<Entry> mkdir(const Caller& caller, std::string_view child, std::uint32_t mode,
                        std::uint32_t umask = 0) {
        return share.call([&] { return share.fs->mkdir(caller, kRootNode, name(child), mode, umask); });
    }
    Status rename(std::string_view from, std::string_view to, std::uint32_t flags = 0) {
        return share.call(
            [&] { return share.fs->rename(kRoot, kRootNode, name(from), kRootNode, name(to), flags); });
    }
};
INSTANTIATE_TEST_SUITE_P(Modes, Create, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

TEST_P(Create, new_file_is_open_for_what_was_asked_whatever_its_mode) {
    for (const std::uint32_t mode : {0444U, 0200U, 0000U}) {
        const auto file = "f" + std::to_string(mode);
        const auto created = create(kRoot, file, O_RDWR | O_EXCL, mode);
        ASSERT_TRUE(created);
        EXPECT_EQ(created->entry.attr.mode & 07777, mode);
        EXPECT_EQ(share.write(created->opened.handle, 0, "data"), 4U);
        EXPECT_EQ(share.read(created->opened.handle, 0, 10), "data");
        EXPECT_EQ(share.node(file), created->entry.node);
    }
}

// The client's kernel knows who may keep them, and says so with the request as it does with OPEN.
TEST_P(Create, file_that_is_there_is_cut_and_loses_its_set_id_bits_if_that_is_asked_for) {
    put(share.dir.path("f"), "text");
    const std::string path = share.dir.path("f");
    for (const bool kill : {false, true}) {
        ASSERT_EQ(::chmod(path.c_str(), 04755), 0);
        ASSERT_TRUE(create(kUser, "f", O_RDWR | O_TRUNC, 0644, 0, kill));
        EXPECT_EQ(host(path).st_size, 0);
        EXPECT_EQ(host(path).st_mode & 07777, kill ? 0755U : 04755U);
    }
}

TEST_P(Create, existing_file_is_opened_unless_exclusive) {
    put(share.dir.path("f"), "old");
    EXPECT_EQ(create(kRoot, "f", O_RDWR | O_EXCL, 0644).error(), Errno{EEXIST});
    const auto opened = create(kRoot, "f", O_RDONLY, 0644);
    ASSERT_TRUE(opened);
    EXPECT_EQ(share.read(opened->opened.handle, 0, 10), "old");
    ASSERT_TRUE(create(kRoot, "f", O_RDWR | O_TRUNC, 0644));
    EXPECT_EQ(contents(share.dir.path("f")), "");
    stdfs::create_directory(share.dir.path("d"));
    EXPECT_EQ(create(kRoot, "d", O_RDWR, 0644).error(), Errno{EISDIR});
    stdfs::create_symlink("/etc/passwd", share.dir.path("l"));
    EXPECT_EQ(create(kRoot, "l", O_RDONLY, 0644).error(), Errno{ELOOP});
    EXPECT_EQ(create(kRoot, "l", O_RDONLY | O_EXCL, 0644).error(), Errno{EEXIST});
}

TEST_P(Create, what_a_user_makes_belongs_to_that_user) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ::chmod(share.dir.path().c_str(), 0700); // the client's kernel has let the user in; we ask no second time
    ASSERT_TRUE(create(kUser, "file", O_RDWR | O_EXCL, 0640));
    ASSERT_TRUE(mkdir(kUser, "dir", 0750));
    ASSERT_TRUE(share.call([&] { return share.fs->symlink(kUser, kRootNode, name("link"), "target"); }));
    ASSERT_TRUE(
        share.call([&] { return share.fs->mknod(kUser, kRootNode, name("fifo"), S_IFIFO | 0600, 0, 0); }));
    ASSERT_TRUE(
        share.call([&] { return share.fs->mknod(kUser, kRootNode, name("node"), S_IFREG | 0600, 0, 0); }));
    for (const char* const child : {"file", "dir", "link", "fifo", "node"}) {
        EXPECT_EQ(host(share.dir.path(child)).st_uid, kUser.uid) << child;
        EXPECT_EQ(host(share.dir.path(child)).st_gid, kUser.gid) << child;
    }
    EXPECT_EQ(host(share.dir.path("file")).st_mode & 07777, 0640U);
    EXPECT_EQ(host(share.dir.path("dir")).st_mode & 07777, 0750U);
    ASSERT_TRUE(mkdir(kRoot, "after", 0755)); // and the thread is itself again
    EXPECT_EQ(host(share.dir.path("after")).st_uid, 0U);
}

TEST_P(Create, set_group_id_directory_hands_its_group_down_but_not_the_bit_on_programs) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    ASSERT_EQ(::chown(share.dir.path().c_str(), 0, 777), 0);
    ASSERT_EQ(::chmod(share.dir.path().c_str(), 02777), 0);
    ASSERT_TRUE(create(kUser, "file", O_RDWR | O_EXCL, 02775));
    EXPECT_EQ(host(share.dir.path("file")).st_gid, 777U);
    EXPECT_EQ(host(share.dir.path("file")).st_mode & 07777, 0775U);
    ASSERT_TRUE(mkdir(kUser, "dir", 0755));
    EXPECT_EQ(host(share.dir.path("dir")).st_gid, 777U);
    EXPECT_EQ(host(share.dir.path("dir")).st_mode & 07777, 02755U);
    ASSERT_TRUE(create(kRoot, "roots", O_RDWR | O_EXCL, 02775));
    EXPECT_EQ(host(share.dir.path("roots")).st_mode & 07777, 02775U);
}

TEST_P(Create, umask_is_applied_when_it_is_passed_and_only_then) {
    ASSERT_TRUE(create(kRoot, "masked", O_RDWR | O_EXCL, 0666, 027));
    ASSERT_TRUE(create(kRoot, "plain", O_RDWR | O_EXCL, 0666));
    ASSERT_TRUE(mkdir(kRoot, "dir", 0777, 077));
    EXPECT_EQ(host(share.dir.path("masked")).st_mode & 07777, 0640U);
    EXPECT_EQ(host(share.dir.path("plain")).st_mode & 07777, 0666U);
    EXPECT_EQ(host(share.dir.path("dir")).st_mode & 07777, 0700U);
}

TEST_P(Create, device_numbers_pass_unchanged) {
    const std::uint32_t device = (2U << 8) | (0x12345 & 0xff) | ((0x12345 & ~0xffU) << 12);
    const auto made =
        share.call([&] { return share.fs->mknod(kRoot, kRootNode, name("dev"), S_IFBLK | 0600, device, 0); });
    if (!made && made.error() == Errno{EPERM}) GTEST_SKIP() << "needs CAP_MKNOD";
    ASSERT_TRUE(made);
    EXPECT_EQ(made->attr.device_major, 2U);
    EXPECT_EQ(made->attr.device_minor, 0x12345U);
}

// A program on the host replaces each new file at once by another: the node is what was made all the same.
TEST_P(Create, node_is_what_was_made_whatever_becomes_of_the_name) {
    std::atomic<bool> over = false;
    std::thread replacing{[&] {
        const std::string file = share.dir.path("f");
        const std::string other = share.dir.path("other");
        while (!over) {
            put(other, "other");
            if (::access(file.c_str(), F_OK) == 0) ::rename(other.c_str(), file.c_str());
        }
    }};
    int made = 0;
    for (int i = 0; i < 500; ++i) {
        ::unlink(share.dir.path("f").c_str());
        const auto created = create(kRoot, "f", O_RDWR | O_EXCL, 0600);
        if (!created) {
            EXPECT_EQ(created.error(), Errno{EEXIST});
            continue;
        }
        ++made;
        EXPECT_EQ(share.write(created->opened.handle, 0, "made"), 4U);
        const auto by_node = share.open(created->entry.node, O_RDONLY);
        ASSERT_TRUE(by_node);
        EXPECT_EQ(share.read(by_node->handle, 0, 10), "made");
        EXPECT_TRUE(share.release(by_node->handle));
        EXPECT_TRUE(share.release(created->opened.handle));
        share.run([&] { share.fs->forget(created->entry.node, ~0ULL); });
    }
    over = true;
    replacing.join();
    EXPECT_GT(made, 0);
}

TEST_P(Create, errors_are_the_hosts) {
    put(share.dir.path("f"), "x");
    ASSERT_TRUE(mkdir(kRoot, "d", 0755));
    put(share.dir.path("d/x"), "x");
    EXPECT_EQ(mkdir(kRoot, "d", 0755).error(), Errno{EEXIST});
    const NodeId file = share.node("f");
    EXPECT_EQ(share.call([&] { return share.fs->mkdir(kRoot, file, name("x"), 0755, 0); }).error(),
              Errno{ENOTDIR});
    EXPECT_EQ(share.call([&] { return share.fs->rmdir(kRoot, kRootNode, name("d")); }).error(),
              Errno{ENOTEMPTY});
    EXPECT_EQ(share.call([&] { return share.fs->rmdir(kRoot, kRootNode, name("f")); }).error(),
              Errno{ENOTDIR});
    EXPECT_EQ(share.call([&] { return share.fs->unlink(kRoot, kRootNode, name("d")); }).error(),
              Errno{EISDIR});
    EXPECT_EQ(share.call([&] { return share.fs->unlink(kRoot, kRootNode, name("no")); }).error(),
              Errno{ENOENT});
    EXPECT_TRUE(share.call([&] { return share.fs->unlink(kRoot, kRootNode, name("f")); }));
    EXPECT_FALSE(stdfs::exists(share.dir.path("f")));
}

TEST_P(Create, link_is_the_same_node_and_links_symbolic_links_themselves) {
    put(share.dir.path("f"), "x");
    stdfs::create_symlink("/etc/passwd", share.dir.path("l"));
    const NodeId file = share.node("f");
    const auto linked = share.call([&] { return share.fs->link(kRoot, file, kRootNode, name("g")); });
    ASSERT_TRUE(linked);
    EXPECT_EQ(linked->node, file);
    EXPECT_EQ(linked->attr.links, 2U);
    const NodeId link = share.node("l");
    ASSERT_TRUE(share.call([&] { return share.fs->link(kRoot, link, kRootNode, name("l2")); }));
    EXPECT_EQ(stdfs::read_symlink(share.dir.path("l2")), "/etc/passwd");
    EXPECT_EQ(share.call([&] { return share.fs->link(kRoot, file, kRootNode, name("g")); }).error(),
              Errno{EEXIST});
}

TEST_P(Create, nameless_file_can_be_linked_afterwards) {
    const auto made =
        share.call([&] { return share.fs->tmpfile(kRoot, kRootNode, O_RDWR | O_TMPFILE, 0666, 027); });
    if (!made && made.error() == Errno{EOPNOTSUPP}) GTEST_SKIP() << "no O_TMPFILE here";
    ASSERT_TRUE(made);
    EXPECT_EQ(made->entry.attr.links, 0U);
    EXPECT_EQ(made->entry.attr.mode & 07777, 0640U);
    EXPECT_EQ(share.write(made->opened.handle, 0, "data"), 4U);
    ASSERT_TRUE(
        share.call([&] { return share.fs->link(kRoot, made->entry.node, kRootNode, name("named")); }));
    EXPECT_EQ(contents(share.dir.path("named")), "data");
    const auto sealed =
        share.call([&] { return share.fs->tmpfile(kRoot, kRootNode, O_RDWR | O_TMPFILE | O_EXCL, 0600, 0); });
    ASSERT_TRUE(sealed);
    EXPECT_EQ(
        share.call([&] { return share.fs->link(kRoot, sealed->entry.node, kRootNode, name("no")); }).error(),
        Errno{ENOENT});
}

TEST_P(Create, rename_flags_reach_the_host) {
    put(share.dir.path("a"), "a");
    put(share.dir.path("b"), "b");
    EXPECT_EQ(rename("a", "b", RENAME_NOREPLACE).error(), Errno{EEXIST});
    ASSERT_TRUE(rename("a", "b", RENAME_EXCHANGE));
    EXPECT_EQ(contents(share.dir.path("a")), "b");
    EXPECT_EQ(rename("a", "missing", RENAME_EXCHANGE).error(), Errno{ENOENT});
    EXPECT_EQ(rename("a", "b", RENAME_EXCHANGE | RENAME_NOREPLACE).error(), Errno{EINVAL});
    EXPECT_EQ(rename("a", "b", 1U << 20).error(), Errno{EINVAL});
    ASSERT_TRUE(rename("a", "c"));
    EXPECT_FALSE(stdfs::exists(share.dir.path("a")));
    EXPECT_EQ(rename("a", "c").error(), Errno{ENOENT});
}

std::uint64_t effective_capabilities() {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    __user_cap_data_struct data[2] = {};
    EXPECT_EQ(::syscall(SYS_capget, &header, data), 0);
    return std::uint64_t{data[1].effective} << 32 | data[0].effective;
}

constexpr std::uint64_t kFsetid = std::uint64_t{1} << CAP_FSETID;

// Switches to kUser twice, for what has the set-group-id bit and for what has not.
void expect_capabilities_to_stay() {
    const Credentials credentials;
    const std::uint64_t before = effective_capabilities();
    for (const std::uint32_t mode : {0755U, 02755U, 0755U, 02755U}) {
        std::uint64_t inside = 0;
        credentials.as(kUser, {.mode = mode}, [&inside] {
            inside = effective_capabilities();
            return 0;
        });
        EXPECT_EQ(inside, (mode & S_ISGID) != 0 ? before & ~kFsetid : before) << mode;
        EXPECT_EQ(effective_capabilities(), before);
    }
}

TEST(PassthroughCredentials, switch_loses_no_capability_but_the_one_for_set_group_id_bits) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    rt::start_thread("test", expect_capabilities_to_stay).join();
    // On a thread whose capabilities do follow its user, which those of rt/thread.h do not.
    std::thread{expect_capabilities_to_stay}.join();
}

TEST(PassthroughCredentials, ids_that_cannot_be_are_refused_and_the_thread_stays_itself) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const Credentials credentials;
    const auto called = [] {
        ADD_FAILURE() << "called";
        return 0;
    };
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(credentials.as({.uid = ~0U, .gid = 5, .pid = 1}, {}, called), -EOVERFLOW);
        EXPECT_EQ(credentials.as({.uid = 5, .gid = ~0U, .pid = 1}, {}, called), -EOVERFLOW);
        EXPECT_EQ(::syscall(SYS_setfsuid, ~0U), 0);
        EXPECT_EQ(::syscall(SYS_setfsgid, ~0U), 0);
    }
}

// What was made belongs to somebody else then.
TEST(PassthroughCredentialsDeathTest, thread_whose_ids_are_not_what_they_should_be_ends_the_process) {
    if (::geteuid() != 0) GTEST_SKIP() << "needs root";
    const Credentials credentials;
    const auto with_other_id = [](long call) {
        return [call] {
            ::syscall(call, 4321);
            return 0;
        };
    };
    EXPECT_DEATH(credentials.as(kUser, {}, with_other_id(SYS_setfsuid)), "fs_id");
    EXPECT_DEATH(credentials.as(kUser, {}, with_other_id(SYS_setfsgid)), "fs_id");
}

TEST(PassthroughProcFd, path_descriptor_stands_for_the_same_object_with_and_without_open_tree) {
    const TempDir dir;
    put(dir.path("f"), "x");
    const Fd file{::open(dir.path("f").c_str(), O_RDWR | O_CLOEXEC)};
    ASSERT_EQ(::unlink(dir.path("f").c_str()), 0);
    put(dir.path("f"), "another");
    for (const bool open_tree : {true, false}) {
        const auto proc = ProcFd::make(open_tree);
        ASSERT_TRUE(proc);
        const auto path = proc->open_path(file.get());
        ASSERT_TRUE(path);
        EXPECT_NE(::fcntl(path->get(), F_GETFL) & O_PATH, 0);
        EXPECT_NE(::fcntl(path->get(), F_GETFD) & FD_CLOEXEC, 0);
        struct stat of_file{};
        struct stat of_path{};
        ASSERT_EQ(::fstat(file.get(), &of_file), 0);
        ASSERT_EQ(::fstat(path->get(), &of_path), 0);
        EXPECT_EQ(of_path.st_ino, of_file.st_ino);
        EXPECT_EQ(of_path.st_nlink, 0U);
    }
}

TEST(PassthroughThreads, forget_of_a_node_that_is_being_created_costs_that_request_only) {
    Share share;
    put(share.dir.path("f"), "x");
    std::atomic<bool> over = false;
    std::thread forgetting{[&] {
        const auto member = rt::EpochMember::join();
        while (!over) {
            auto entry = share.fs->lookup(kRoot, kRootNode, name("f"));
            ASSERT_TRUE(entry.ready());
            if (entry.value()) share.fs->forget(entry.value()->node, ~0ULL);
            member->quiescent();
            member->collect();
        }
    }};
    std::thread creating{[&] {
        const auto member = rt::EpochMember::join();
        for (int i = 0; i < 3000; ++i) {
            auto made = share.fs->create(kRoot, kRootNode, name("f"), O_RDWR | O_CREAT, 0644, 0, false);
            ASSERT_TRUE(made.ready());
            if (made.value()) {
                share.fs->forget(made.value()->entry.node, 1);
                auto released = share.fs->release(made.value()->opened.handle);
                EXPECT_TRUE(released.ready() && released.value());
            } else if (made.value().error() == Errno{ENFILE}) {
                // The other thread does not get the CPU and holds up the epoch, and descriptors run out.
                member->collect();
                std::this_thread::yield();
            } else {
                EXPECT_EQ(made.value().error(), Errno{ESTALE});
            }
            member->quiescent();
            if (i % 8 == 0) member->collect();
        }
        over = true;
    }};
    creating.join();
    over = true;
    forgetting.join();
}

// Answers on a worker while a lease is being given up elsewhere, as a Samba server would.
TEST(PassthroughLease, create_and_change_of_size_wait_for_its_end_off_the_worker) {
    Share share;
    put(share.dir.path("f"), "data");
    const NodeId node = share.node("f");
    const auto while_leased = [&](auto begin) {
        const Fd leased{::open(share.dir.path("f").c_str(), O_RDONLY | O_CLOEXEC)};
        ASSERT_TRUE(leased);
        ::signal(SIGIO, SIG_IGN);
        if (::fcntl(leased.get(), F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases on this file system";
        std::thread waiting{[&] { begin(); }};
        // What is asked next on the same worker is answered while the holder of the lease takes its time.
        const auto begun = std::chrono::steady_clock::now();
        while (::fcntl(leased.get(), F_GETLEASE) == F_RDLCK) std::this_thread::yield();
        EXPECT_TRUE(share.getattr(node));
        EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds{10});
        EXPECT_EQ(::fcntl(leased.get(), F_SETLEASE, F_UNLCK), 0);
        waiting.join();
    };
    while_leased([&] {
        const auto made = share.call(
            [&] { return share.fs->create(kRoot, kRootNode, name("f"), O_RDWR | O_CREAT, 0644, 0, false); });
        ASSERT_TRUE(made);
        EXPECT_EQ(share.read(made->opened.handle, 0, 9), "data");
        EXPECT_TRUE(share.release(made->opened.handle));
        share.settled_nodes(); // an open writer stands in the way of the next lease
    });
    if (testing::Test::IsSkipped()) return;
    while_leased([&] {
        const auto cut = share.call(
            [&] { return share.fs->setattr(kRoot, node, {.fields = SetAttr::size_field, .size = 2}); });
        ASSERT_TRUE(cut);
        EXPECT_EQ(cut->attr.size, 2U);
    });
    EXPECT_EQ(contents(share.dir.path("f")), "da");
    EXPECT_EQ(share.fs->calls(OpClass::change, Place::helper), 2U);
}

TEST(PassthroughReadOnly, every_change_is_refused) {
    Share share{{.xattr = true, .read_only = true}};
    put(share.dir.path("f"), "x");
    const NodeId file = share.node("f");
    const Errno refused{EROFS};
    auto& fs = *share.fs;
    EXPECT_EQ(share.call([&] { return fs.mkdir(kRoot, kRootNode, name("d"), 0755, 0); }).error(), refused);
    EXPECT_EQ(share.call([&] { return fs.symlink(kRoot, kRootNode, name("d"), "t"); }).error(), refused);
    EXPECT_EQ(share.call([&] { return fs.unlink(kRoot, kRootNode, name("f")); }).error(), refused);
    EXPECT_EQ(share.call([&] { return fs.rmdir(kRoot, kRootNode, name("f")); }).error(), refused);
    EXPECT_EQ(share.call([&] { return fs.link(kRoot, file, kRootNode, name("g")); }).error(), refused);
    EXPECT_EQ(
        share.call([&] { return fs.create(kRoot, kRootNode, name("g"), O_CREAT | O_RDWR, 0644, 0, false); })
            .error(),
        refused);
    EXPECT_EQ(share.call([&] { return fs.tmpfile(kRoot, kRootNode, O_RDWR, 0644, 0); }).error(), refused);
    EXPECT_EQ(
        share.call([&] { return fs.rename(kRoot, kRootNode, name("f"), kRootNode, name("g"), 0); }).error(),
        refused);
    EXPECT_EQ(share.call([&] { return fs.setattr(kRoot, file, {.fields = SetAttr::mode_field}); }).error(),
              refused);
    EXPECT_EQ(share.call([&] { return fs.removexattr(kRoot, file, "user.x"); }).error(), refused);
    EXPECT_EQ(share.open(file, O_RDWR).error(), refused);
    EXPECT_EQ(share.open(file, O_RDONLY | O_TRUNC).error(), refused);
    const auto opened = share.open(file, O_RDONLY);
    ASSERT_TRUE(opened);
    EXPECT_EQ(share.read(opened->handle, 0, 9), "x");
    EXPECT_EQ(share.write(opened->handle, 0, "y").error(), refused);
}

} // namespace
} // namespace viaduct::passthrough
