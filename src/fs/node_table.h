// SPDX-License-Identifier: Apache-2.0
//
// NodeTable: what one client holds lookup counts on.
//
// A node costs 64 bytes, 4 bytes of index and one descriptor.  Finding a node reads two lines and writes
// none. A lookup of a known node writes that node's line; making or removing one takes the lock of one shard
// of the index.  A node whose count reaches 0 is dead for good: a later lookup makes another with another
// generation. Locks: one shard at a time, nothing inside.
#pragma once

#include "base/fd.h"
#include "base/sync.h"
#include "fs/record_pool.h"
#include "fs/types.h"

#include <array>
#include <optional>

namespace viaduct::fs {

struct Node {
    RecordHead head;
    sync::Shared<std::uint64_t> lookups;
    // Set before the node can be found, constant until it is free.
    std::uint64_t mount_id;
    std::uint64_t inode;
    std::uint64_t born_ns;
    std::uint32_t device;
    int fd;              // O_PATH
    std::uint16_t mount; // the back end's own number for the mount
    std::uint16_t type;  // S_IFMT bits of the mode
    std::uint32_t made;  // how many nodes had been made, this one included; wraps around

    NodeIdentity identity() const noexcept { return {mount_id, inode, born_ns, device}; }
};
static_assert(sizeof(Node) == 64);

using NodePin = RecordPin<Node>;

class NodeTable {
public:
    struct Options {
        std::uint32_t nodes_max = 1U << 20; // root not counted
        std::uint32_t shards = 64;
    };
    static Result<std::unique_ptr<NodeTable>> make(const Options& options, std::shared_ptr<FdCloser> closer);
    ~NodeTable();

    // What is known of a node when it is made.
    struct Facts {
        NodeIdentity identity;
        std::uint16_t mount = 0;
        std::uint16_t type = 0;
    };
    // Before any call; root is never removed.
    void set_root(Fd fd, const Facts& facts);

    // Valid until the caller's next quiescent point.  ESTALE: the client holds no such node.
    Result<Node*> find(NodeId id) noexcept {
        if (id == kRootNode) return &pool_->at(kRootIndex);
        const auto value = static_cast<std::uint64_t>(id);
        Node* const node =
            pool_->find(static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32));
        if (node == nullptr) return fail(ESTALE);
        return node;
    }
    NodeId id_of(const Node& node) const noexcept;
    NodePin pin(Node& node) noexcept { return NodePin{*pool_, node}; }
    // Whatever is at that index now, live or not.
    const Node& at(std::uint32_t index) noexcept { return pool_->at(index); }
    std::uint32_t index_of(const Node& node) const noexcept { return pool_->index_of(node); }

    // The node with that identity, made with `fd` where there is none; the client holds one more count on it.
    // ENFILE: the client has as many nodes as it may.
    Result<NodeId> intern(Fd fd, const Facts& facts);
    // How many nodes have been made so far; wraps around.
    std::uint32_t made() const noexcept { return made_.load(std::memory_order_acquire); }
    // For an identity that was read, by name, when `made` nodes had been made: the node with it, on which the
    // client now holds one more count.  A node made later is not returned: what was read may have been
    // another object, deleted since, whose inode number this one has.  An older one has held the object all
    // the while.
    std::optional<NodeId> find_known(const NodeIdentity& identity, std::uint32_t made) noexcept;
    // Takes back `count` counts, or all where there are fewer; unknown nodes are ignored.
    void forget(NodeId id, std::uint64_t count);
    // Drops every node but root.
    void clear();

    // See RecordPool.
    bool room_to_come() const noexcept { return pool_->room_to_come(); }

    // Root and nodes that wait for their epoch included.
    std::uint32_t count() const noexcept { return pool_->in_use(); }
    // Descriptors held at most, root's included.
    std::uint32_t nodes_max() const noexcept { return pool_->records_max(); }

private:
    static constexpr std::uint32_t kRootIndex = 1;
    struct alignas(64) Shard {
        sync::Mutex mutex;
    };
    using Bucket = sync::Shared<std::uint32_t>; // index of the first node

    NodeTable(RecordPool<Node>* pool, MappedMemory buckets, std::uint32_t buckets_count,
              std::uint32_t shards);
    std::uint32_t bucket_of(const NodeIdentity& identity) const noexcept;
    // `fits(node)`: a further condition.
    template <class Fits>
    Node* find_and_count(std::uint32_t bucket, const NodeIdentity& identity, Fits fits) noexcept;
    Node* find_and_count(std::uint32_t bucket, const NodeIdentity& identity) noexcept;
    void remove(Node& node);

    RecordPool<Node>* const pool_;
    const MappedMemory buckets_memory_;
    Bucket* const buckets_;
    const std::uint32_t buckets_mask_;
    const std::uint32_t shards_mask_;
    const std::unique_ptr<Shard[]> shards_;
    alignas(64) sync::Shared<std::uint32_t> made_; // written with each new node
};

} // namespace viaduct::fs
