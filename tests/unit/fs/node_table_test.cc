// SPDX-License-Identifier: Apache-2.0
#include "fs/node_table.h"

#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <thread>
#include <vector>

namespace viaduct::fs {
namespace {

// Closes at once and counts.
struct CountingCloser final : FdCloser {
    std::atomic<int> closed{0};
    void close(int fd, std::uint16_t) override {
        ::close(fd);
        ++closed;
    }
};

Fd some_fd() {
    return Fd{::open("/", O_PATH | O_CLOEXEC)};
}

NodeTable::Facts file(std::uint64_t inode, std::uint64_t born_ns = 0, std::uint64_t mount_id = 7,
                      std::uint32_t device = 1) {
    return {.identity = {.mount_id = mount_id, .inode = inode, .born_ns = born_ns, .device = device},
            .mount = 0,
            .type = S_IFREG >> 12};
}

struct NodeTableTest : testing::Test {
    std::shared_ptr<CountingCloser> closer = std::make_shared<CountingCloser>();
    std::unique_ptr<NodeTable> table = *NodeTable::make({.nodes_max = 8}, closer);
    NodeTableTest() { table->set_root(some_fd(), file(2)); }
};

TEST_F(NodeTableTest, root_is_always_there_and_never_forgotten) {
    EXPECT_TRUE(table->find(kRootNode));
    table->forget(kRootNode, 1000);
    table->clear();
    EXPECT_TRUE(table->find(kRootNode));
    EXPECT_EQ(table->count(), 1U);
}

TEST_F(NodeTableTest, same_identity_is_one_node_and_one_descriptor) {
    const NodeId first = *table->intern(some_fd(), file(10));
    const NodeId second = *table->intern(some_fd(), file(10));
    EXPECT_EQ(first, second);
    EXPECT_EQ(table->count(), 2U);
}

TEST_F(NodeTableTest, mount_device_inode_and_birth_each_make_another_node) {
    const NodeId node = *table->intern(some_fd(), file(10, 5, 7, 1));
    EXPECT_NE(node, *table->intern(some_fd(), file(11, 5, 7, 1)));
    EXPECT_NE(node, *table->intern(some_fd(), file(10, 6, 7, 1)));
    EXPECT_NE(node, *table->intern(some_fd(), file(10, 5, 8, 1)));
    EXPECT_NE(node, *table->intern(some_fd(), file(10, 5, 7, 2)));
    EXPECT_EQ(table->count(), 6U);
}

TEST_F(NodeTableTest, forgotten_node_is_closed_and_its_id_is_stale) {
    const NodeId node = *table->intern(some_fd(), file(10));
    table->intern(some_fd(), file(10)).value();
    table->forget(node, 1);
    EXPECT_TRUE(table->find(node));
    table->forget(node, 1);
    EXPECT_EQ(table->find(node).error(), Errno{ESTALE});
    EXPECT_EQ(closer->closed, 1);
    EXPECT_EQ(table->count(), 1U);
}

TEST_F(NodeTableTest, forget_of_more_than_is_held_takes_what_there_is) {
    const NodeId node = *table->intern(some_fd(), file(10));
    table->forget(node, ~0ULL);
    EXPECT_FALSE(table->find(node));
    table->forget(node, 1);
    table->forget(NodeId{0}, 1);
    table->forget(NodeId{~0ULL}, 1);
    EXPECT_EQ(closer->closed, 1);
}

TEST_F(NodeTableTest, place_used_again_has_another_id) {
    const NodeId first = *table->intern(some_fd(), file(10));
    table->forget(first, 1);
    const NodeId second = *table->intern(some_fd(), file(10));
    EXPECT_NE(first, second);
    EXPECT_EQ(static_cast<std::uint32_t>(static_cast<std::uint64_t>(first)),
              static_cast<std::uint32_t>(static_cast<std::uint64_t>(second)));
    EXPECT_FALSE(table->find(first));
}

TEST_F(NodeTableTest, id_with_a_guessed_generation_is_stale) {
    const NodeId node = *table->intern(some_fd(), file(10));
    table->forget(node, 1);
    for (std::uint64_t generation = 0; generation < 4; ++generation)
        for (std::uint64_t index = 0; index < 20; ++index) {
            const NodeId guess{generation << 32 | index};
            if (guess != kRootNode) {
                EXPECT_FALSE(table->find(guess));
            }
        }
}

TEST_F(NodeTableTest, cap_gives_enfile_and_known_nodes_still_work) {
    for (std::uint64_t inode = 0; inode < 8; ++inode)
        EXPECT_TRUE(table->intern(some_fd(), file(100 + inode)));
    const auto over = table->intern(some_fd(), file(200));
    ASSERT_FALSE(over);
    EXPECT_EQ(over.error(), Errno{ENFILE});
    const auto known = table->intern(some_fd(), file(100));
    ASSERT_TRUE(known);
    table->forget(*known, 2);
    EXPECT_TRUE(table->intern(some_fd(), file(200)));
}

TEST_F(NodeTableTest, pinned_node_keeps_its_descriptor_after_forget) {
    const NodeId node = *table->intern(some_fd(), file(10));
    {
        const NodePin pin = table->pin(**table->find(node));
        table->forget(node, 1);
        EXPECT_FALSE(table->find(node));
        EXPECT_EQ(closer->closed, 0);
        EXPECT_GE(::fcntl(pin->fd, F_GETFD), 0);
    }
    EXPECT_EQ(closer->closed, 1);
    EXPECT_EQ(table->count(), 1U);
}

TEST_F(NodeTableTest, clear_drops_all_but_root) {
    std::vector<NodeId> nodes;
    for (std::uint64_t inode = 0; inode < 8; ++inode) nodes.push_back(*table->intern(some_fd(), file(inode)));
    table->clear();
    for (const NodeId node : nodes) EXPECT_FALSE(table->find(node));
    EXPECT_EQ(table->count(), 1U);
    EXPECT_EQ(closer->closed, 8);
}

TEST_F(NodeTableTest, member_closes_only_after_a_quiescent_point) {
    const auto member = rt::EpochMember::join();
    const NodeId node = *table->intern(some_fd(), file(10));
    const int fd = (*table->find(node))->fd;
    table->forget(node, 1);
    member->collect();
    EXPECT_EQ(closer->closed, 0);
    EXPECT_GE(::fcntl(fd, F_GETFD), 0);
    member->quiescent();
    member->collect();
    EXPECT_EQ(closer->closed, 1);
}

TEST_F(NodeTableTest, known_node_is_found_by_identity_and_counted) {
    const NodeId node = *table->intern(some_fd(), file(10));
    EXPECT_EQ(table->find_known(file(10).identity, table->made()), node);
    EXPECT_EQ(table->find_known(file(11).identity, table->made()), std::nullopt);
    table->forget(node, 1);
    EXPECT_TRUE(table->find(node)); // the second count
    table->forget(node, 1);
    EXPECT_FALSE(table->find(node));
    EXPECT_EQ(table->find_known(file(10).identity, table->made()), std::nullopt);
}

// An inode number is free for others once nobody holds the object: what was read of a name before the node
// was made may be of the one that had the number before.
TEST_F(NodeTableTest, node_made_after_its_identity_was_read_is_not_taken_for_known) {
    const std::uint32_t before = table->made();
    const NodeId node = *table->intern(some_fd(), file(10));
    EXPECT_EQ(table->find_known(file(10).identity, before), std::nullopt);
    EXPECT_EQ(table->find_known(file(10).identity, table->made()), node);
    table->forget(node, 2);
    EXPECT_FALSE(table->find(node)); // the one that was refused has not been counted
}

TEST_F(NodeTableTest, finding_takes_no_lock_and_writes_nothing_shared) {
    const NodeId node = *table->intern(some_fd(), file(10));
    const auto before = sync::counted();
    for (int i = 0; i < 10'000; ++i) ASSERT_TRUE(table->find(node));
    EXPECT_EQ(sync::counted().locks, before.locks);
    EXPECT_EQ(sync::counted().shared_writes, before.shared_writes);
}

TEST(NodeTableThreads, lookups_and_forgets_of_the_same_few_nodes_end_at_the_base_line) {
    constexpr int kThreads = 4;
    constexpr int kRounds = 20'000;
    const auto closer = std::make_shared<CountingCloser>();
    const auto table = *NodeTable::make({.nodes_max = 4096, .shards = 2}, closer);
    table->set_root(some_fd(), file(2));
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
        threads.emplace_back([&table = *table, thread] {
            const auto member = rt::EpochMember::join();
            for (int round = 0; round < kRounds; ++round) {
                const std::uint64_t inode = 100 + static_cast<std::uint64_t>(round * 7 + thread) % 5;
                Fd fd{::dup(2)};
                const bool out_of_fds = !fd && errno == EMFILE;
                const auto node =
                    out_of_fds ? Result<NodeId>{fail(ENFILE)} : table.intern(std::move(fd), file(inode));
                if (!node) { // a member that does not get the CPU holds up the epoch, and places run out
                    ASSERT_EQ(node.error(), Errno{ENFILE});
                    member->quiescent();
                    member->collect();
                    std::this_thread::yield();
                    continue;
                }
                const auto found = table.find(*node);
                ASSERT_TRUE(found); // we hold a count
                ASSERT_EQ((*found)->inode, inode);
                {
                    const NodePin pin = table.pin(**found);
                    table.forget(*node, 1);
                    ASSERT_GE(::fcntl(pin->fd, F_GETFD), 0);
                }
                if (round % 16 == 0) {
                    member->quiescent();
                    member->collect();
                }
            }
        });
    for (auto& thread : threads) thread.join();
    const auto member = rt::EpochMember::join();
    table->forget(*table->intern(some_fd(), file(1)), 1); // who has something to free adopts what others left
    member->quiescent();
    member->collect();
    member->quiescent();
    member->collect();
    EXPECT_EQ(table->count(), 1U);
}

} // namespace
} // namespace viaduct::fs
