// SPDX-License-Identifier: Apache-2.0
#include "virtio/packed_driver_queue.h"

#include "base/assert.h"
#include "virtio/driver_ring_layout.h"

#include <algorithm>
#include <utility>

namespace viaduct::virtio {
namespace {

DriverRingLayout layout_of(const DriverQueueOptions& options) {
    return driver_ring_layout(options, packed_descriptor_bytes(options.size), sizeof(std::uint32_t),
                              sizeof(std::uint32_t));
}

} // namespace

std::size_t PackedDriverQueue::ring_bytes(const DriverQueueOptions& options) {
    return layout_of(options).bytes;
}

PackedDriverQueue::PackedDriverQueue(const DriverQueueOptions& options, std::byte* memory,
                                     GuestAddress address)
    : options_(options), address_(address), memory_(memory), slots_(options.size), free_count_(options.size) {
    const DriverRingLayout layout = layout_of(options);
    ring_ = reinterpret_cast<PackedDescriptor*>(memory);
    driver_event_ = reinterpret_cast<std::uint32_t*>(memory + layout.driver_area);
    device_event_ = reinterpret_cast<const std::uint32_t*>(memory + layout.device_area);
    indirect_tables_ = layout.indirect_tables;
    for (std::uint32_t id = 0; id < options.size; ++id) {
        slots_[id].next_free = static_cast<std::uint16_t>(id + 1 < options.size ? id + 1 : 0);
    }
}

Status PackedDriverQueue::stage(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                                void* token) {
    if (broken_) return fail(EIO);
    const std::size_t count = readable.size() + writable.size();
    if (count == 0) return fail(EINVAL);
    const bool indirect = options_.indirect && count > 1 && count <= kIndirectEntriesMax;
    if (!indirect && count > options_.size) return fail(EINVAL);
    if ((indirect ? 1 : count) > free_count_) return fail(ENOSPC);

    // There is an id for every entry, and a chain takes at least one entry: where entries are free, ids are.
    const std::uint16_t id = free_id_;
    Slot& slot = slots_[id];
    free_id_ = slot.next_free;
    slot.token = token;
    slot.entries = static_cast<std::uint16_t>(indirect ? 1 : count);
    slot.writable_bytes = 0;
    for (const GuestRange& range : writable) slot.writable_bytes += range.bytes;
    free_count_ -= slot.entries;
    added_entries_ += slot.entries;
    ++in_flight_;
    if (indirect) {
        add_indirect(readable, writable, id);
    } else {
        add_direct(readable, writable, id);
    }
    return {};
}

void PackedDriverQueue::write_entry(PackedDescriptor& to, const GuestRange& range, std::uint16_t id) {
    ring_write(to.address, static_cast<std::uint64_t>(range.address));
    ring_write(to.bytes, range.bytes);
    ring_write(to.id, id);
}

// The flags of the head are stored last: with them the device may take the whole chain (2.8.6).  seq_cst,
// since should_kick() loads the device's event suppression afterwards, and the device stores that and then
// loads these flags.  It cannot be repeated there, once a batch: by then the entry may hold a used element.
void PackedDriverQueue::add_direct(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                                   std::uint16_t id) {
    PackedDescriptor& head = ring_[avail_.offset];
    std::uint16_t head_flags = 0;
    std::size_t left = readable.size() + writable.size();
    const auto append = [&](const GuestRange& range, std::uint16_t flags) {
        PackedDescriptor& entry = ring_[avail_.offset];
        flags |= packed_available_flags(avail_.wrap);
        if (--left > 0) flags |= kDescNext;
        write_entry(entry, range, id);
        if (&entry == &head) {
            head_flags = flags;
        } else {
            ring_store(entry.flags, flags, std::memory_order_relaxed);
        }
        avail_.advance(1, options_.size);
    };
    for (const GuestRange& range : readable) append(range, 0);
    for (const GuestRange& range : writable) append(range, kDescWrite);
    ring_store(head.flags, head_flags, std::memory_order_seq_cst);
}

void PackedDriverQueue::add_indirect(std::span<const GuestRange> readable,
                                     std::span<const GuestRange> writable, std::uint16_t id) {
    const std::uint64_t offset = indirect_tables_ + kIndirectTableBytes * id;
    auto* entry = reinterpret_cast<PackedDescriptor*>(memory_ + offset);
    const auto append = [&](const GuestRange& range, std::uint16_t flags) {
        write_entry(*entry, range, 0);
        ring_write(entry->flags, flags);
        ++entry;
    };
    for (const GuestRange& range : readable) append(range, 0);
    for (const GuestRange& range : writable) append(range, kDescWrite);

    const std::size_t count = readable.size() + writable.size();
    const GuestRange whole{.address = GuestAddress{static_cast<std::uint64_t>(address_) + offset},
                           .bytes = static_cast<std::uint32_t>(16 * count)};
    PackedDescriptor& head = ring_[avail_.offset];
    write_entry(head, whole, id);
    const auto flags = static_cast<std::uint16_t>(kDescIndirect | packed_available_flags(avail_.wrap));
    avail_.advance(1, options_.size);
    ring_store(head.flags, flags, std::memory_order_seq_cst);
}

bool PackedDriverQueue::should_kick() {
    const std::uint32_t added = std::exchange(added_entries_, 0);
    if (added == 0) return false;
    const std::uint32_t event = ring_load(*device_event_, std::memory_order_seq_cst);
    // A batch of more than a lap has passed every position.
    return packed_event_wanted(event, avail_, added, options_.size,
                               options_.event_idx && added <= options_.size);
}

bool PackedDriverQueue::used_at_next(std::memory_order order) const {
    return in_flight_ > 0 && packed_used(ring_load(ring_[used_.offset].flags, order), used_.wrap);
}

bool PackedDriverQueue::has_used() const {
    return broken_ || used_at_next(std::memory_order_acquire);
}

Result<std::optional<DriverQueue::Used>> PackedDriverQueue::poll() {
    if (broken_) return fail(EIO);
    // Acquire: pairs with the device's store of these flags, behind which element and reply lie.
    if (!used_at_next(std::memory_order_acquire)) return std::nullopt;
    const PackedDescriptor& element = ring_[used_.offset];
    const std::uint16_t id = ring_read(element.id);
    const std::uint32_t written_bytes = ring_read(element.bytes);
    if (id >= options_.size) return break_queue();
    Slot& slot = slots_[id];
    if (slot.entries == 0) return break_queue();
    if (written_bytes > slot.writable_bytes) return break_queue();
    const Used used{.token = slot.token, .written_bytes = written_bytes};
    used_.advance(slot.entries, options_.size);
    free_count_ += slot.entries;
    --in_flight_;
    slot.entries = 0;
    slot.next_free = free_id_;
    free_id_ = id;
    // The device has read what the next chain is written to; its lines come back while the answer is looked
    // at.
    prefetch_to_write(ring_ + avail_.offset);
    if (options_.indirect) prefetch_to_write(memory_ + indirect_tables_ + kIndirectTableBytes * id);
    return used;
}

void PackedDriverQueue::disable_interrupts() {
    ring_store(*driver_event_, packed_event_word(0, kEventDisable), std::memory_order_relaxed);
}

// The event position counts entries, and in which order chains of different length come back is not known: it
// is set as if each took one entry, so that the interrupt is early rather than late.
bool PackedDriverQueue::enable_interrupts_after(std::uint16_t count) {
    if (broken_) return true; // poll() has something to say
    std::uint32_t event = packed_event_word(0, kEventEnable);
    if (options_.event_idx) {
        PackedPosition position = used_;
        position.advance(std::clamp<std::uint32_t>(count, 1, std::max(in_flight_, 1U)) - 1, options_.size);
        event = packed_event_word(position.bits(), kEventDesc);
    }
    // The device stores the flags of an element and then loads what is stored here (2.8.10).
    ring_store(*driver_event_, event, std::memory_order_seq_cst);
    return used_at_next(std::memory_order_seq_cst);
}

DriverQueue::Addresses PackedDriverQueue::addresses() const {
    const DriverRingLayout layout = layout_of(options_);
    return {.descriptor_area = 0, .driver_area = layout.driver_area, .device_area = layout.device_area};
}

std::unexpected<Errno> PackedDriverQueue::break_queue() {
    broken_ = true;
    return fail(EIO);
}

} // namespace viaduct::virtio
