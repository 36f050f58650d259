// SPDX-License-Identifier: Apache-2.0
#include "fs/node_table.h"

#include <bit>

namespace viaduct::fs {
namespace {

// false: the count was 0, so the node is dead.
bool add_count(Node& node) noexcept {
    std::uint64_t count = node.lookups.load(std::memory_order_relaxed);
    while (count != 0)
        if (node.lookups.compare_exchange_weak(count, count + 1, std::memory_order_acq_rel,
                                               std::memory_order_relaxed))
            return true;
    return false;
}

} // namespace

Result<std::unique_ptr<NodeTable>> NodeTable::make(const Options& options, std::shared_ptr<FdCloser> closer) {
    ASSERT(options.nodes_max < (1U << 30));
    ASSERT(std::has_single_bit(options.shards));
    const std::uint32_t buckets = std::bit_ceil(std::max(options.nodes_max, options.shards));
    TRY(MappedMemory memory, MappedMemory::make("viaduct-node-index", buckets * sizeof(Bucket)));
    TRY(RecordPool<Node>* const pool,
        RecordPool<Node>::make("viaduct-nodes", options.nodes_max + 1, std::move(closer)));
    return std::unique_ptr<NodeTable>{new NodeTable{pool, std::move(memory), buckets, options.shards}};
}

NodeTable::NodeTable(RecordPool<Node>* pool, MappedMemory buckets, std::uint32_t buckets_count,
                     std::uint32_t shards)
    : pool_(pool), buckets_memory_(std::move(buckets)),
      buckets_(static_cast<Bucket*>(buckets_memory_.data())), buckets_mask_(buckets_count - 1),
      shards_mask_(shards - 1), shards_(new Shard[shards]) {
    const auto root = pool_->allocate();
    ASSERT(root == kRootIndex);
    pool_->at(kRootIndex).fd = -1;
}

NodeTable::~NodeTable() {
    clear();
    Node& root = pool_->at(kRootIndex);
    if (root.fd >= 0) ::close(std::exchange(root.fd, -1));
    pool_->drop();
}

void NodeTable::set_root(Fd fd, const Facts& facts) {
    Node& root = pool_->at(kRootIndex);
    ASSERT(root.fd < 0);
    root.fd = fd.release();
    root.mount_id = facts.identity.mount_id;
    root.inode = facts.identity.inode;
    root.born_ns = facts.identity.born_ns;
    root.device = facts.identity.device;
    root.mount = facts.mount;
    root.type = facts.type;
}

NodeId NodeTable::id_of(const Node& node) const noexcept {
    const std::uint64_t generation = node.head.generation.load(std::memory_order_acquire);
    return NodeId{generation << 32 | pool_->index_of(node)};
}

std::uint32_t NodeTable::bucket_of(const NodeIdentity& identity) const noexcept {
    constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15U; // 2^64 / golden ratio
    std::uint64_t hash = identity.inode * kMix;
    hash = (hash ^ identity.mount_id ^ (std::uint64_t{identity.device} << 32)) * kMix;
    hash ^= hash >> 32;
    return static_cast<std::uint32_t>(hash) & buckets_mask_;
}

// Under the epoch, or under the shard's lock.  A node that is removed meanwhile keeps its `next` until this
// reader has passed; its count is 0, so it is not returned.
template <class Fits>
Node* NodeTable::find_and_count(std::uint32_t bucket, const NodeIdentity& identity, Fits fits) noexcept {
    // Acquire: who sees the index sees the node's fields.
    std::uint32_t index = buckets_[bucket].load(std::memory_order_acquire);
    while (index != RecordPool<Node>::kNone) {
        Node& node = pool_->at(index);
        if (node.identity() == identity && fits(node) && add_count(node)) return &node;
        index = node.head.next.load(std::memory_order_acquire);
    }
    return nullptr;
}

Node* NodeTable::find_and_count(std::uint32_t bucket, const NodeIdentity& identity) noexcept {
    return find_and_count(bucket, identity, [](const Node&) { return true; });
}

std::optional<NodeId> NodeTable::find_known(const NodeIdentity& identity, std::uint32_t made) noexcept {
    // One that seems newer because the counter has wrapped is merely not found.
    const auto old_enough = [made](const Node& node) {
        return static_cast<std::int32_t>(node.made - made) <= 0;
    };
    const Node* const node = find_and_count(bucket_of(identity), identity, old_enough);
    if (node == nullptr) return std::nullopt;
    return id_of(*node);
}

Result<NodeId> NodeTable::intern(Fd fd, const Facts& facts) {
    const std::uint32_t bucket = bucket_of(facts.identity);
    if (const Node* const node = find_and_count(bucket, facts.identity)) return id_of(*node);

    TRY(const std::uint32_t index, pool_->allocate());
    const sync::Lock lock{shards_[bucket & shards_mask_].mutex};
    if (const Node* const node = find_and_count(bucket, facts.identity)) {
        pool_->give_back(index);
        return id_of(*node);
    }
    Node& node = pool_->at(index);
    node.mount_id = facts.identity.mount_id;
    node.inode = facts.identity.inode;
    node.born_ns = facts.identity.born_ns;
    node.device = facts.identity.device;
    node.fd = fd.release();
    node.mount = facts.mount;
    node.type = facts.type;
    // Release: who reads the counter afterwards, with made(), does so after `fd` was opened.
    node.made = made_.fetch_add(1, std::memory_order_acq_rel) + 1;
    node.lookups.store(1, std::memory_order_relaxed);
    node.head.next.store(buckets_[bucket].load(std::memory_order_relaxed), std::memory_order_relaxed);
    const std::uint64_t generation = pool_->publish(index);
    // Release: pairs with the acquire loads in find_and_count().
    buckets_[bucket].store(index, std::memory_order_release);
    return NodeId{generation << 32 | index};
}

void NodeTable::forget(NodeId id, std::uint64_t count) {
    if (id == kRootNode || count == 0) return;
    const auto found = find(id);
    if (!found) return;
    Node& node = **found;
    std::uint64_t held = node.lookups.load(std::memory_order_relaxed);
    std::uint64_t left = 0;
    do {
        if (held == 0) return; // whoever made it 0 removes it
        left = held > count ? held - count : 0;
    } while (!node.lookups.compare_exchange_weak(held, left, std::memory_order_acq_rel,
                                                 std::memory_order_relaxed));
    if (left == 0) remove(node);
}

// Called once per node, by the one who made its count 0.
void NodeTable::remove(Node& node) {
    const std::uint32_t index = pool_->index_of(node);
    const std::uint32_t generation = node.head.generation.load(std::memory_order_relaxed);
    const std::uint32_t bucket = bucket_of(node.identity());
    {
        const sync::Lock lock{shards_[bucket & shards_mask_].mutex};
        Bucket* link = &buckets_[bucket];
        std::uint32_t at = link->load(std::memory_order_relaxed);
        while (at != index) {
            ASSERT(at != RecordPool<Node>::kNone);
            link = &pool_->at(at).head.next;
            at = link->load(std::memory_order_relaxed);
        }
        // Release: what follows in the chain was published under this lock, and readers come through here.
        link->store(node.head.next.load(std::memory_order_relaxed), std::memory_order_release);
    }
    const bool mine = pool_->withdraw(index, generation);
    ASSERT(mine);
}

void NodeTable::clear() {
    const std::uint32_t end = pool_->high_water();
    for (std::uint32_t index = kRootIndex + 1; index < end; ++index) {
        Node& node = pool_->at(index);
        if (node.head.generation.load(std::memory_order_acquire) == 0) continue;
        if (node.lookups.exchange(0, std::memory_order_acq_rel) != 0) remove(node);
    }
}

} // namespace viaduct::fs
