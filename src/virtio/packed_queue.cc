// SPDX-License-Identifier: Apache-2.0
#include "virtio/packed_queue.h"

#include "virtio/chain_builder.h"

namespace viaduct::virtio {
namespace {

// All entries of the table, in order; flags other than WRITE mean nothing there (2.8.7).
const char* walk_indirect(const GuestMemory& memory, const PackedDescriptor& descriptor,
                          ChainBuilder& builder, const void*& start) {
    IndirectTable table;
    if (const char* const refusal = IndirectTable::find(memory, descriptor.address, descriptor.bytes, table))
        return refusal;
    start = table.start;
    for (std::uint32_t index = 0; index < table.entries; ++index) {
        const PackedDescriptor entry = read_packed_descriptor(table.entry(index));
        if ((entry.flags & kDescIndirect) != 0) return "an indirect table names another one";
        const bool writable = (entry.flags & kDescWrite) != 0;
        if (const char* const refusal = builder.add(entry.address, entry.bytes, writable)) return refusal;
    }
    table.done();
    return nullptr;
}

bool aligned(const void* pointer, std::uintptr_t alignment) {
    return reinterpret_cast<std::uintptr_t>(pointer) % alignment == 0;
}

} // namespace

Result<PackedQueue> PackedQueue::make(const GuestMemory& memory, const QueueLayout& layout) {
    if (layout.size == 0 || layout.size > kQueueSizeMax) return fail(EINVAL);

    PackedQueue queue{memory, layout};
    queue.size_ = layout.size;
    queue.event_idx_ = layout.event_idx;
    queue.indirect_ = layout.indirect;
    queue.avail_ = PackedPosition::of(static_cast<std::uint16_t>(layout.base));
    queue.used_ = PackedPosition::of(static_cast<std::uint16_t>(layout.base >> 16));
    if (queue.avail_.offset >= layout.size || queue.used_.offset >= layout.size) return fail(EINVAL);
    queue.in_flight_ = queue.avail_.since(queue.used_, layout.size);
    if (queue.in_flight_ > layout.size) return fail(EINVAL);
    TRY_STATUS(queue.locate(memory));
    return queue;
}

Status PackedQueue::set_memory(const GuestMemory& memory) {
    memory_ = &memory;
    if (const auto located = locate(memory); !located) {
        ring_ = nullptr;
        driver_event_ = nullptr;
        device_event_ = nullptr;
        break_queue("the ring is not in the new memory table");
        return located;
    }
    return {};
}

// Fills in the three pointers.  Alignment: 2.8, table.
Status PackedQueue::locate(const GuestMemory& memory) {
    std::byte* const ring = memory.at_user(layout_.descriptor_area, packed_descriptor_bytes(size_));
    std::byte* const driver_event = memory.at_user(layout_.driver_area, sizeof *driver_event_);
    std::byte* const device_event = memory.at_user(layout_.device_area, sizeof *device_event_);
    if (ring == nullptr || driver_event == nullptr || device_event == nullptr) return fail(EINVAL);
    if (!aligned(ring, 16) || !aligned(driver_event, 4) || !aligned(device_event, 4)) return fail(EINVAL);
    ring_ = reinterpret_cast<PackedDescriptor*>(ring);
    driver_event_ = reinterpret_cast<const std::uint32_t*>(driver_event);
    device_event_ = reinterpret_cast<std::uint32_t*>(device_event);
    return {};
}

Result<bool> PackedQueue::take(std::uint16_t head_flags, Chain& chain) {
    if (const char* const refusal = walk(head_flags, chain)) [[unlikely]]
        return break_queue(refusal);
    in_flight_ += chain.ticket.descriptor_count;
    avail_.advance(chain.ticket.descriptor_count, size_);
    return true;
}

// nullptr, or why the chain is refused.  `head_flags` were read by pop() and are not read again.
const char* PackedQueue::walk(std::uint16_t head_flags, Chain& chain) {
    ChainBuilder builder{*memory_, chain};
    // Entries that are in flight belong to us, and no chain may run into them.
    const std::uint32_t room = size_ - in_flight_;
    PackedPosition position = avail_;
    for (std::uint32_t count = 1; count <= room; ++count) {
        const PackedDescriptor& entry = ring_[position.offset];
        PackedDescriptor descriptor{.address = ring_read(entry.address),
                                    .bytes = ring_read(entry.bytes),
                                    .id = ring_read(entry.id),
                                    .flags = head_flags};
        if (count > 1) descriptor.flags = ring_load(entry.flags, std::memory_order_relaxed);
        // The buffer id stands in the last entry of a chain (2.8.6).
        chain.ticket = {.id = descriptor.id, .descriptor_count = static_cast<std::uint16_t>(count)};
        if ((descriptor.flags & kDescIndirect) != 0) {
            if (!indirect_) return "an indirect table without VIRTIO_F_INDIRECT_DESC";
            if (count > 1 || (descriptor.flags & kDescNext) != 0)
                return "an indirect table is linked with other descriptors"; // 2.8.19
            return walk_indirect(*memory_, descriptor, builder, last_table_);
        }
        const bool writable = (descriptor.flags & kDescWrite) != 0;
        if (const char* const refusal = builder.add(descriptor.address, descriptor.bytes, writable))
            return refusal;
        if ((descriptor.flags & kDescNext) == 0) return nullptr;
        position.advance(1, size_);
    }
    return "a chain is longer than the ring has entries free";
}

std::unexpected<Errno> PackedQueue::break_queue(const char* reason) {
    if (reason_ == nullptr) reason_ = reason;
    return fail(EPROTO);
}

} // namespace viaduct::virtio
