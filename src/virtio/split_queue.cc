// SPDX-License-Identifier: Apache-2.0
#include "virtio/split_queue.h"

#include "virtio/chain_builder.h"

#include <bit>

namespace viaduct::virtio {
namespace {

// The `length` entries of the table at `table`, linked through `next`, from entry 0 on.
const char* walk_indirect(const GuestMemory& memory, std::uint64_t address, std::uint32_t bytes,
                          ChainBuilder& builder, const void*& start) {
    IndirectTable table;
    if (const char* const refusal = IndirectTable::find(memory, address, bytes, table)) return refusal;
    start = table.start;
    std::uint32_t index = 0;
    for (std::uint32_t count = 0; count < table.entries; ++count) {
        const SplitDescriptor entry = read_split_descriptor(table.entry(index));
        if ((entry.flags & kDescIndirect) != 0) return "an indirect table names another one"; // 2.7.5.3.1
        const bool writable = (entry.flags & kDescWrite) != 0;
        if (const char* const refusal = builder.add(entry.address, entry.bytes, writable)) return refusal;
        if ((entry.flags & kDescNext) == 0) {
            table.done();
            return nullptr;
        }
        if (entry.next >= table.entries) return "a link leads out of an indirect table";
        index = entry.next;
    }
    return "a chain loops in an indirect table";
}

bool aligned(const void* pointer, std::uintptr_t alignment) {
    return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

} // namespace

Result<SplitQueue> SplitQueue::make(const GuestMemory& memory, const QueueLayout& layout) {
    if (layout.size > kQueueSizeMax) return fail(EINVAL);
    if (!std::has_single_bit(layout.size)) return fail(EINVAL);
    if (layout.base > 0xffff) return fail(EINVAL);

    SplitQueue queue{memory, layout};
    queue.size_ = layout.size;
    queue.mask_ = static_cast<std::uint16_t>(layout.size - 1);
    queue.event_idx_ = layout.event_idx;
    queue.indirect_ = layout.indirect;
    TRY_STATUS(queue.locate(memory));

    queue.avail_next_ = queue.avail_seen_ = static_cast<std::uint16_t>(layout.base);
    queue.used_next_ = queue.used_published_ = ring_load(queue.used_->idx, std::memory_order_acquire);
    // What an earlier queue popped and did not give back still counts.  A used index that makes no sense with
    // the base is the guest's affair: it can only mislead its own driver.
    const auto in_flight = static_cast<std::uint16_t>(queue.avail_next_ - queue.used_next_);
    queue.in_flight_ = in_flight <= layout.size ? in_flight : 0;
    return queue;
}

Status SplitQueue::set_memory(const GuestMemory& memory) {
    memory_ = &memory;
    if (const auto located = locate(memory); !located) {
        descriptors_ = nullptr;
        avail_ = nullptr;
        used_ = nullptr;
        break_queue("the ring is not in the new memory table");
        return located;
    }
    return {};
}

// Fills in the three pointers.  Alignment: 2.7, table; what is misaligned by guest address cannot be loaded
// as an atomic here.
Status SplitQueue::locate(const GuestMemory& memory) {
    std::byte* const descriptors = memory.at_user(layout_.descriptor_area, split_descriptor_bytes(size_));
    std::byte* const avail = memory.at_user(layout_.driver_area, split_avail_bytes(size_));
    std::byte* const used = memory.at_user(layout_.device_area, split_used_bytes(size_));
    if (descriptors == nullptr || avail == nullptr || used == nullptr) return fail(EINVAL);
    if (!aligned(descriptors, 16) || !aligned(avail, 2) || !aligned(used, 4)) return fail(EINVAL);
    descriptors_ = descriptors;
    avail_ = reinterpret_cast<const AvailRing*>(avail);
    used_ = reinterpret_cast<UsedRing*>(used);
    return {};
}

// A driver has at most `size` chains out, and those that were popped and not given back are among them.  The
// bound also limits how many requests a guest can make us hold.
bool SplitQueue::accept_avail(std::uint16_t avail) {
    const auto offered = static_cast<std::uint16_t>(avail - avail_next_);
    if (static_cast<std::uint32_t>(offered) + in_flight_ > size_) {
        break_queue("avail.idx is further ahead than the ring has entries");
        return false;
    }
    avail_seen_ = avail;
    return true;
}

Result<bool> SplitQueue::take(Chain& chain) {
    const std::uint16_t head = ring_read(avail_->ring()[avail_next_ & mask_]);
    if (const char* const refusal = walk(head, chain)) [[unlikely]]
        return break_queue(refusal);
    ++avail_next_;
    ++in_flight_;
    return true;
}

// nullptr, or why the chain is refused.
const char* SplitQueue::walk(std::uint16_t head, Chain& chain) {
    if (head >= size_) return "a head lies outside the descriptor table";
    last_head_ = head;
    ChainBuilder builder{*memory_, chain};
    std::uint16_t index = head;
    for (std::uint32_t count = 1; count <= size_; ++count) {
        const SplitDescriptor descriptor = read_split_descriptor(descriptors_ + 16ULL * index);
        if ((descriptor.flags & kDescIndirect) != 0) {
            if (!indirect_) return "an indirect table without VIRTIO_F_INDIRECT_DESC";
            if ((descriptor.flags & kDescNext) != 0) return "a chain goes on behind an indirect table";
            chain.ticket = {.id = head, .descriptor_count = static_cast<std::uint16_t>(count)};
            return walk_indirect(*memory_, descriptor.address, descriptor.bytes, builder, last_table_);
        }
        const bool writable = (descriptor.flags & kDescWrite) != 0;
        if (const char* const refusal = builder.add(descriptor.address, descriptor.bytes, writable))
            return refusal;
        if ((descriptor.flags & kDescNext) == 0) {
            chain.ticket = {.id = head, .descriptor_count = static_cast<std::uint16_t>(count)};
            return nullptr;
        }
        if (descriptor.next >= size_) return "a link leads out of the descriptor table";
        index = descriptor.next;
    }
    return "a chain loops in the descriptor table";
}

std::unexpected<Errno> SplitQueue::break_queue(const char* reason) {
    if (reason_ == nullptr) reason_ = reason;
    return fail(EPROTO);
}

} // namespace viaduct::virtio
