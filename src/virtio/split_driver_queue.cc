// SPDX-License-Identifier: Apache-2.0
#include "virtio/split_driver_queue.h"

#include "base/assert.h"
#include "virtio/driver_ring_layout.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace viaduct::virtio {
namespace {

DriverRingLayout layout_of(const DriverQueueOptions& options) {
    return driver_ring_layout(options, split_descriptor_bytes(options.size), split_avail_bytes(options.size),
                              split_used_bytes(options.size));
}

// Chains after which the index is stored in between, so that the device begins on a batch that is still being
// made.  Each store takes the line of the index away from a device that polls.
constexpr std::uint32_t kStagedMax = 8;

} // namespace

std::size_t SplitDriverQueue::ring_bytes(const DriverQueueOptions& options) {
    return layout_of(options).bytes;
}

SplitDriverQueue::SplitDriverQueue(const DriverQueueOptions& options, std::byte* memory, GuestAddress address)
    : options_(options), address_(address), memory_(memory), slots_(options.size), free_count_(options.size),
      mask_(static_cast<std::uint16_t>(options.size - 1)) {
    ASSERT(std::has_single_bit(options.size));
    const DriverRingLayout layout = layout_of(options);
    descriptors_ = reinterpret_cast<SplitDescriptor*>(memory);
    avail_ = reinterpret_cast<AvailRing*>(memory + layout.driver_area);
    used_ = reinterpret_cast<const UsedRing*>(memory + layout.device_area);
    indirect_tables_ = layout.indirect_tables;
    for (std::uint32_t index = 0; index < options.size; ++index) {
        slots_[index].next = static_cast<std::uint16_t>((index + 1) & mask_);
    }
}

Status SplitDriverQueue::stage(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                               void* token) {
    if (broken_) return fail(EIO);
    const std::size_t count = readable.size() + writable.size();
    if (count == 0) return fail(EINVAL);
    const bool indirect = options_.indirect && count > 1 && count <= kIndirectEntriesMax;
    if (!indirect && count > options_.size) return fail(EINVAL);
    if ((indirect ? 1 : count) > free_count_) return fail(ENOSPC);

    const std::uint16_t head = indirect ? add_indirect(readable, writable) : add_direct(readable, writable);
    Slot& slot = slots_[head];
    slot.token = token;
    slot.entries = static_cast<std::uint16_t>(indirect ? 1 : count);
    slot.writable_bytes = 0;
    for (const GuestRange& range : writable) slot.writable_bytes += range.bytes;
    free_count_ -= slot.entries;
    ++in_flight_;
    ++added_;

    ring_write(avail_->ring()[avail_next_ & mask_], head);
    ++avail_next_;
    if (++staged_ == kStagedMax) publish();
    return {};
}

void SplitDriverQueue::publish() {
    if (staged_ == 0) return;
    staged_ = 0;
    // Release: entry and descriptors are visible before the index.  Pairs with the device's load of
    // avail.idx.
    ring_store(avail_->idx, avail_next_, std::memory_order_release);
}

void SplitDriverQueue::write_descriptor(SplitDescriptor* to, const GuestRange& range, std::uint16_t flags,
                                        std::uint16_t next) {
    ring_write(to->address, static_cast<std::uint64_t>(range.address));
    ring_write(to->bytes, range.bytes);
    ring_write(to->flags, flags);
    ring_write(to->next, next);
}

// Takes entries off the free list; their links stay as they are, so that release() finds the chain again
// without asking the table, which the device could have changed.
std::uint16_t SplitDriverQueue::add_direct(std::span<const GuestRange> readable,
                                           std::span<const GuestRange> writable) {
    const std::uint16_t head = free_head_;
    std::size_t left = readable.size() + writable.size();
    const auto append = [&](const GuestRange& range, std::uint16_t flags) {
        const std::uint16_t next = slots_[free_head_].next;
        if (--left > 0) flags |= kDescNext;
        write_descriptor(descriptors_ + free_head_, range, flags, next);
        free_head_ = next;
    };
    for (const GuestRange& range : readable) append(range, 0);
    for (const GuestRange& range : writable) append(range, kDescWrite);
    return head;
}

std::uint16_t SplitDriverQueue::add_indirect(std::span<const GuestRange> readable,
                                             std::span<const GuestRange> writable) {
    const std::uint16_t head = free_head_;
    free_head_ = slots_[head].next;
    const std::uint64_t offset = indirect_tables_ + kIndirectTableBytes * head;
    auto* const table = reinterpret_cast<SplitDescriptor*>(memory_ + offset);
    const std::size_t count = readable.size() + writable.size();
    std::uint16_t index = 0;
    const auto append = [&](const GuestRange& range, std::uint16_t flags) {
        const auto next = static_cast<std::uint16_t>(index + 1);
        const bool last = next == count;
        if (!last) flags |= kDescNext;
        write_descriptor(table + index, range, flags, last ? 0 : next);
        index = next;
    };
    for (const GuestRange& range : readable) append(range, 0);
    for (const GuestRange& range : writable) append(range, kDescWrite);

    const GuestRange whole{.address = GuestAddress{static_cast<std::uint64_t>(address_) + offset},
                           .bytes = static_cast<std::uint32_t>(16 * count)};
    write_descriptor(descriptors_ + head, whole, kDescIndirect, 0);
    return head;
}

bool SplitDriverQueue::should_kick() {
    const std::uint32_t added = std::exchange(added_, 0);
    if (added == 0) return false;
    staged_ = 0;
    // seq_cst: the device stores avail_event (or flags) and then loads avail.idx, so one of the two sees the
    // other (2.7.13.4.1).  One such store a batch instead of one a chain.
    ring_store(avail_->idx, avail_next_, std::memory_order_seq_cst);
    if (!options_.event_idx) return (ring_load(used_->flags, std::memory_order_seq_cst) & kUsedNoNotify) == 0;
    const std::uint16_t event = ring_load(*avail_event(), std::memory_order_seq_cst);
    if (added > 0xffff) return true; // the index has run past every event
    return event_passed(event, avail_next_, static_cast<std::uint16_t>(avail_next_ - added));
}

bool SplitDriverQueue::has_used() const {
    return broken_ || used_next_ != used_seen_ ||
           ring_load(used_->idx, std::memory_order_acquire) != used_next_;
}

Result<std::optional<DriverQueue::Used>> SplitDriverQueue::poll() {
    if (broken_) return fail(EIO);
    if (used_next_ == used_seen_) {
        // Acquire: pairs with the device's store, behind which element and reply lie.
        const std::uint16_t seen = ring_load(used_->idx, std::memory_order_acquire);
        if (seen == used_next_) return std::nullopt;
        if (static_cast<std::uint16_t>(seen - used_next_) > in_flight_) return break_queue();
        used_seen_ = seen;
    }
    const UsedElement& element = used_->ring()[used_next_ & mask_];
    const std::uint32_t id = ring_read(element.id);
    const std::uint32_t written_bytes = ring_read(element.bytes);
    if (id >= options_.size) return break_queue();
    const Slot& slot = slots_[id];
    if (slot.entries == 0) return break_queue();
    if (written_bytes > slot.writable_bytes) return break_queue();
    ++used_next_;
    const Used used{.token = slot.token, .written_bytes = written_bytes};
    release(static_cast<std::uint16_t>(id));
    return used;
}

void SplitDriverQueue::release(std::uint16_t head) {
    const std::uint16_t entries = std::exchange(slots_[head].entries, 0);
    std::uint16_t tail = head;
    for (std::uint16_t count = 1; count < entries; ++count) tail = slots_[tail].next;
    slots_[tail].next = free_head_;
    free_head_ = head;
    free_count_ += entries;
    --in_flight_;
    approach_next();
}

// The device has read what the next chain is written to; its lines come back while the answer is looked at.
void SplitDriverQueue::approach_next() const noexcept {
    prefetch_to_write(&avail_->idx);
    prefetch_to_write(&avail_->ring()[avail_next_ & mask_]);
    prefetch_to_write(descriptors_ + free_head_);
    if (options_.indirect) prefetch_to_write(memory_ + indirect_tables_ + kIndirectTableBytes * free_head_);
}

void SplitDriverQueue::disable_interrupts() {
    // With EVENT_IDX used_event stays behind and is passed once in 65536 chains.
    if (!options_.event_idx) ring_store(avail_->flags, kAvailNoInterrupt, std::memory_order_relaxed);
}

bool SplitDriverQueue::enable_interrupts_after(std::uint16_t count) {
    if (broken_) return true; // poll() has something to say
    // Mirror image of should_kick(): the device stores used.idx and then loads what is stored here (2.7.7.1).
    if (options_.event_idx) {
        count = static_cast<std::uint16_t>(std::clamp<std::uint32_t>(count, 1, std::max(in_flight_, 1U)));
        ring_store(*used_event(), static_cast<std::uint16_t>(used_next_ + count - 1),
                   std::memory_order_seq_cst);
    } else {
        count = 1;
        ring_store(avail_->flags, 0, std::memory_order_seq_cst);
    }
    const std::uint16_t used = ring_load(used_->idx, std::memory_order_seq_cst);
    return static_cast<std::uint16_t>(used - used_next_) >= count;
}

DriverQueue::Addresses SplitDriverQueue::addresses() const {
    const DriverRingLayout layout = layout_of(options_);
    return {.descriptor_area = 0, .driver_area = layout.driver_area, .device_area = layout.device_area};
}

std::unexpected<Errno> SplitDriverQueue::break_queue() {
    broken_ = true;
    return fail(EIO);
}

} // namespace viaduct::virtio
