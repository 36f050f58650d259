// SPDX-License-Identifier: Apache-2.0
#include "unit/passthrough/share.h"

#include <atomic>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <thread>

namespace viaduct::passthrough {
namespace {

namespace stdfs = std::filesystem;

TEST(PassthroughMake, says_what_is_wrong_with_a_share_that_is_no_directory) {
    const auto missing = Passthrough::make({.share = "/nowhere/at/all"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().message.find("cannot share \"/nowhere/at/all\": ENOENT"), 0U);
    const auto file = Passthrough::make({.share = "/dev/null"});
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().message, "cannot share \"/dev/null\": it is not a directory");
}

struct Lookup : testing::TestWithParam<InlineMode> {
    Share share{{.inline_mode = GetParam()}};
};
INSTANTIATE_TEST_SUITE_P(Modes, Lookup, testing::Values(InlineMode::automatic, InlineMode::never),
                         [](const auto& info) {
                             return info.param == InlineMode::never ? "away" : "inline";
                         });

TEST_P(Lookup, finds_what_is_there_with_its_attributes) {
    put(share.dir.path("file"), "12345");
    const auto entry = share.lookup(kRootNode, "file");
    ASSERT_TRUE(entry);
    EXPECT_EQ(entry->attr.size, 5U);
    EXPECT_TRUE(S_ISREG(entry->attr.mode));
    EXPECT_FALSE(entry->submount);
    EXPECT_EQ(entry->entry_valid, std::chrono::seconds{1});
    EXPECT_EQ(share.lookup(kRootNode, "missing").error(), Errno{ENOENT});
    EXPECT_EQ(share.lookup(entry->node, "below").error(), Errno{ENOTDIR});
    EXPECT_EQ(share.lookup(NodeId{99}, "file").error(), Errno{ESTALE});
}

TEST_P(Lookup, hard_links_are_one_node) {
    put(share.dir.path("a"), "x");
    stdfs::create_hard_link(share.dir.path("a"), share.dir.path("b"));
    EXPECT_EQ(share.node("a"), share.node("b"));
}

TEST_P(Lookup, new_file_of_the_same_name_is_another_node) {
    put(share.dir.path("a"), "old");
    const NodeId old = share.node("a");
    stdfs::remove(share.dir.path("a"));
    put(share.dir.path("a"), "newer");
    const NodeId present = share.node("a");
    EXPECT_NE(old, present);
    EXPECT_EQ(share.getattr(old)->attr.size, 3U);
    EXPECT_EQ(share.getattr(old)->attr.links, 0U);
    EXPECT_EQ(share.getattr(present)->attr.size, 5U);
}

TEST_P(Lookup, name_in_a_removed_directory_is_stale_not_missing) {
    stdfs::create_directory(share.dir.path("d"));
    const NodeId dir = share.node("d");
    stdfs::remove(share.dir.path("d"));
    EXPECT_EQ(share.lookup(dir, "x").error(), Errno{ESTALE});
    const auto made = share.call([&] { return share.fs->mkdir(kRoot, dir, name("x"), 0755, 0); });
    EXPECT_EQ(made.error(), Errno{ESTALE});
    const auto gone = share.call([&] { return share.fs->unlink(kRoot, dir, name("x")); });
    EXPECT_EQ(gone.error(), Errno{ESTALE});
}

TEST_P(Lookup, known_name_gives_its_node_with_attributes_as_they_are_now) {
    put(share.dir.path("f"), "1");
    const auto first = share.lookup(kRootNode, "f");
    put(share.dir.path("f"), "12345");
    const auto second = share.lookup(kRootNode, "f");
    ASSERT_TRUE(second);
    EXPECT_EQ(second->node, first->node);
    EXPECT_EQ(second->attr.size, 5U);
    EXPECT_EQ(second->attr.inode, first->attr.inode);
    EXPECT_EQ(second->entry_valid, first->entry_valid);
    EXPECT_FALSE(second->submount);
    share.run([&] { share.fs->forget(first->node, 1); });
    EXPECT_TRUE(share.getattr(first->node)); // both lookups were counted
    share.run([&] { share.fs->forget(first->node, 1); });
    EXPECT_EQ(share.getattr(first->node).error(), Errno{ESTALE});
}

TEST_P(Lookup, known_name_that_something_is_mounted_on_leads_there) {
    stdfs::create_directory(share.dir.path("d"));
    const auto below = share.lookup(kRootNode, "d");
    if (::mount("none", share.dir.path("d").c_str(), "tmpfs", 0, "") != 0)
        GTEST_SKIP() << "needs CAP_SYS_ADMIN";
    const auto above = share.lookup(kRootNode, "d");
    ASSERT_TRUE(above);
    EXPECT_TRUE(above->submount);
    EXPECT_NE(above->node, below->node);
    EXPECT_EQ(share.lookup(kRootNode, "d")->node, above->node);
    share.run([&] { share.fs->end_session(); });
    share.settled_nodes();
    EXPECT_EQ(::umount(share.dir.path("d").c_str()), 0);
}

TEST_P(Lookup, symbolic_links_are_found_and_never_followed) {
    stdfs::create_directory(share.dir.path("real"));
    stdfs::create_directory_symlink("/etc", share.dir.path("absolute"));
    stdfs::create_directory_symlink("..", share.dir.path("up"));
    stdfs::create_directory_symlink("/proc/self/root", share.dir.path("magic"));
    for (const char* const link : {"absolute", "up", "magic"}) {
        const auto entry = share.lookup(kRootNode, link);
        ASSERT_TRUE(entry);
        EXPECT_TRUE(S_ISLNK(entry->attr.mode));
        EXPECT_EQ(share.lookup(entry->node, "passwd").error(), Errno{ENOTDIR});
        EXPECT_EQ(share.open(entry->node, O_RDONLY).error(), Errno{ELOOP});
        const auto opened = share.call([&] { return share.fs->opendir(kRoot, entry->node); });
        EXPECT_EQ(opened.error(), Errno{ENOTDIR});
    }
    const NodeId up = share.node("up");
    EXPECT_EQ(share.call([&] { return share.fs->readlink(kRoot, up); }), "..");
    const NodeId real = share.node("real");
    EXPECT_EQ(share.call([&] { return share.fs->readlink(kRoot, real); }).error(), Errno{EINVAL});
}

TEST_P(Lookup, directory_swapped_for_a_link_to_the_outside_leads_nowhere) {
    const TempDir outside;
    put(outside.path("secret"), "outside");
    stdfs::create_directory(share.dir.path("d"));
    put(share.dir.path("d/secret"), "in");
    stdfs::create_directory_symlink(outside.path(), share.dir.path("link"));
    std::atomic<bool> stop{false};
    std::thread swapper{[&] {
        while (!stop)
            ::renameat2(AT_FDCWD, share.dir.path("d").c_str(), AT_FDCWD, share.dir.path("link").c_str(),
                        RENAME_EXCHANGE);
    }};
    int inside = 0;
    for (int i = 0; i < 2000; ++i) {
        const auto dir = share.lookup(kRootNode, "d");
        if (!dir) continue;
        if (const auto secret = share.lookup(dir->node, "secret")) {
            EXPECT_EQ(secret->attr.size, 2U);
            ++inside;
        }
    }
    stop = true;
    swapper.join();
    EXPECT_GT(inside, 0);
}

TEST_P(Lookup, pipes_sockets_and_devices_are_found_but_not_opened) {
    ASSERT_EQ(::mkfifo(share.dir.path("fifo").c_str(), 0666), 0);
    const Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
    const auto path = share.dir.path("socket");
    std::copy(path.begin(), path.end(), address.sun_path);
    ASSERT_EQ(::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    const bool device = ::mknod(share.dir.path("null").c_str(), S_IFCHR | 0666, ::makedev(1, 3)) == 0;
    stdfs::create_directory(share.dir.path("dir"));
    EXPECT_EQ(share.open(share.node("fifo"), O_RDONLY).error(), Errno{ENXIO});
    EXPECT_EQ(share.open(share.node("fifo"), O_RDWR | O_NONBLOCK).error(), Errno{ENXIO});
    EXPECT_EQ(share.open(share.node("socket"), O_RDWR).error(), Errno{ENXIO});
    if (device) {
        EXPECT_EQ(share.open(share.node("null"), O_RDWR).error(), Errno{ENXIO});
    }
    EXPECT_EQ(share.open(share.node("dir"), O_RDONLY).error(), Errno{EISDIR});
    const auto created = share.call(
        [&] { return share.fs->create(kRoot, kRootNode, name("fifo"), O_RDWR | O_CREAT, 0644, 0, false); });
    EXPECT_EQ(created.error(), Errno{ENXIO});
}

TEST_P(Lookup, forgotten_nodes_give_their_descriptors_back) {
    for (int i = 0; i < 20; ++i) put(share.dir.path("f" + std::to_string(i)), "x");
    const auto before = std::distance(stdfs::directory_iterator{"/proc/self/fd"}, {});
    std::vector<NodeId> nodes;
    for (int i = 0; i < 20; ++i) nodes.push_back(share.node("f" + std::to_string(i)));
    EXPECT_EQ(share.settled_nodes(), 21U);
    for (const NodeId node : nodes) share.run([&] { share.fs->forget(node, 1); });
    EXPECT_EQ(share.settled_nodes(), 1U);
    EXPECT_EQ(std::distance(stdfs::directory_iterator{"/proc/self/fd"}, {}), before);
}

TEST_P(Lookup, other_mount_below_the_share_is_told_apart) {
    stdfs::create_directory(share.dir.path("one"));
    stdfs::create_directory(share.dir.path("two"));
    if (::mount("none", share.dir.path("one").c_str(), "tmpfs", 0, "") != 0)
        GTEST_SKIP() << "needs CAP_SYS_ADMIN";
    ASSERT_EQ(::mount("none", share.dir.path("two").c_str(), "tmpfs", 0, ""), 0);
    put(share.dir.path("one/file"), "1");
    put(share.dir.path("two/file"), "22");
    {
        const auto one = share.lookup(kRootNode, "one");
        const auto two = share.lookup(kRootNode, "two");
        ASSERT_TRUE(one);
        ASSERT_TRUE(two);
        EXPECT_TRUE(one->submount);
        EXPECT_NE(one->node, two->node);
        const auto first = share.lookup(one->node, "file");
        const auto second = share.lookup(two->node, "file");
        EXPECT_FALSE(first->submount);
        EXPECT_EQ(first->attr.size, 1U);
        EXPECT_EQ(second->attr.size, 2U);
        EXPECT_NE(first->node, second->node);
        share.run([&] {
            for (const auto& entry : {one, two, first, second}) share.fs->forget(entry->node, 1);
        });
        EXPECT_EQ(share.settled_nodes(), 1U);
    }
    EXPECT_EQ(::umount(share.dir.path("one").c_str()), 0); // no descriptor of ours keeps it busy
    EXPECT_EQ(::umount(share.dir.path("two").c_str()), 0);
}

TEST(PassthroughFold, inode_numbers_of_two_mounts_differ_for_clients_that_see_one_file_system) {
    Share share{{.fold_inodes = true}};
    for (const char* const point : {"one", "two"}) {
        stdfs::create_directory(share.dir.path(point));
        if (::mount("none", share.dir.path(point).c_str(), "tmpfs", 0, "") != 0)
            GTEST_SKIP() << "needs CAP_SYS_ADMIN";
        put(share.dir.path(std::string(point) + "/file"), "x");
    }
    const auto one = share.lookup(share.node("one"), "file");
    const auto two = share.lookup(share.node("two"), "file");
    EXPECT_NE(one->attr.inode, two->attr.inode);
    EXPECT_EQ(share.getattr(one->node)->attr.inode, one->attr.inode);
    share.fs->begin_session(true); // another client, which sees mounts
    EXPECT_EQ(share.getattr(one->node)->attr.inode, share.getattr(two->node)->attr.inode);
    share.fs->begin_session(false);
    EXPECT_EQ(share.getattr(one->node)->attr.inode, one->attr.inode);
    share.run([&] { share.fs->end_session(); });
    share.settled_nodes();
    EXPECT_EQ(::umount(share.dir.path("one").c_str()), 0);
    EXPECT_EQ(::umount(share.dir.path("two").c_str()), 0);
}

TEST(PassthroughLimits, nodes_and_handles_at_their_caps_give_enfile) {
    Share share{{.nodes_max = 4, .handles_max = 2}};
    for (int i = 0; i < 5; ++i) put(share.dir.path("f" + std::to_string(i)), "x");
    std::vector<NodeId> nodes;
    for (int i = 0; i < 4; ++i) nodes.push_back(share.node("f" + std::to_string(i)));
    EXPECT_EQ(share.lookup(kRootNode, "f4").error(), Errno{ENFILE});
    EXPECT_TRUE(share.lookup(kRootNode, "f0"));
    const auto made = share.call([&] { return share.fs->mkdir(kRoot, kRootNode, name("d"), 0755, 0); });
    EXPECT_EQ(made.error(), Errno{ENFILE});
    EXPECT_TRUE(share.open(nodes[0], O_RDONLY));
    const auto second = share.open(nodes[0], O_RDONLY);
    EXPECT_TRUE(second);
    EXPECT_EQ(share.open(nodes[0], O_RDONLY).error(), Errno{ENFILE});
    EXPECT_TRUE(share.release(second->handle));
    EXPECT_EQ(share.release(second->handle).error(), Errno{EBADF});
    share.settled_nodes();
    EXPECT_TRUE(share.open(nodes[0], O_RDONLY));
}

// Two files change places under two names, and one of them is made anew all the time: whatever a lookup
// gives, node and attributes are of one file.
TEST(PassthroughThreads, lookup_of_a_name_that_is_replaced_never_mixes_two_files) {
    Share share;
    std::atomic<bool> done{false};
    const auto make = [&share](const char* child, std::size_t bytes) {
        put(share.dir.path("new"), std::string(bytes, 'x'));
        stdfs::rename(share.dir.path("new"), share.dir.path(child));
    };
    make("a", 1);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 2; ++thread)
        threads.emplace_back([&fs = *share.fs, &done] {
            const auto member = rt::EpochMember::join();
            while (!done) {
                auto entry = fs.lookup(kRoot, kRootNode, name("a"));
                ASSERT_TRUE(entry.ready());
                ASSERT_TRUE(entry.value());
                auto attr = fs.getattr(kRoot, entry.value()->node, std::nullopt);
                ASSERT_TRUE(attr.ready());
                ASSERT_TRUE(attr.value());
                // The size of a file does not change while it has that name.
                ASSERT_EQ(attr.value()->attr.inode, entry.value()->attr.inode);
                ASSERT_EQ(attr.value()->attr.size, entry.value()->attr.size);
                fs.forget(entry.value()->node, 1);
                member->quiescent();
                // Each round may leave a descriptor, and the other thread may not have run for long.
                while (member->collect() > 1000) {
                    std::this_thread::yield();
                    member->quiescent();
                }
            }
        });
    for (std::size_t round = 0; round < 1000; ++round) make("a", round % 7 + 1);
    done = true;
    for (auto& thread : threads) thread.join();
}

TEST(PassthroughThreads, lookup_and_forget_of_one_name_on_several_workers) {
    Share share;
    put(share.dir.path("f"), "x");
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread)
        threads.emplace_back([&fs = *share.fs] {
            const auto member = rt::EpochMember::join();
            for (int i = 0; i < 3000; ++i) {
                auto entry = fs.lookup(kRoot, kRootNode, name("f"));
                ASSERT_TRUE(entry.ready());
                if (!entry.value()) { // a thread that does not get the CPU holds up the epoch, and
                                      // descriptors run out
                    ASSERT_EQ(entry.value().error(), Errno{ENFILE});
                    member->quiescent();
                    member->collect();
                    std::this_thread::yield();
                    continue;
                }
                auto attr = fs.getattr(kRoot, entry.value()->node, std::nullopt);
                ASSERT_TRUE(attr.ready());
                ASSERT_TRUE(attr.value());
                ASSERT_EQ(attr.value()->attr.size, 1U);
                fs.forget(entry.value()->node, 1);
                member->quiescent();
                if (i % 8 == 0) member->collect();
            }
        });
    for (auto& thread : threads) thread.join();
    const NodeId other = share.node("f"); // who has something to free adopts what others left
    share.run([&] { share.fs->forget(other, 1); });
    EXPECT_EQ(share.settled_nodes(), 1U);
}

} // namespace
} // namespace viaduct::passthrough
