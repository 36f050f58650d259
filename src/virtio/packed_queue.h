// SPDX-License-Identifier: Apache-2.0
//
// Packed virtqueue, device side (virtio 1.2, section 2.8).  Used through DeviceQueue, which says what the
// members promise.
#pragma once

#include "base/result.h"
#include "virtio/guest_memory.h"
#include "virtio/queue_layout.h"
#include "virtio/ring_format.h"

#include <cstdint>
#include <utility>

namespace viaduct::virtio {

class PackedQueue {
public:
    // Both positions come from `layout.base`.  EINVAL also: an offset beyond the ring, positions more than a
    // ring apart.
    static Result<PackedQueue> make(const GuestMemory& memory, const QueueLayout& layout);

    Result<bool> pop(Chain& chain) {
        if (broken()) [[unlikely]]
            return fail(EPROTO);
        // Acquire: the driver stores the flags of a head last (2.8.6), so the chain behind it is visible.
        const std::uint16_t flags = ring_load(ring_[avail_.offset].flags, std::memory_order_acquire);
        if (!packed_available(flags, avail_.wrap)) return false;
        return take(flags, chain);
    }

    void approach() const {
        if (broken()) [[unlikely]]
            return;
        // Read, and written soon afterwards.
        prefetch_to_write(ring_ + avail_.offset);
    }
    void expect() const {
        if (broken()) [[unlikely]]
            return;
        prefetch_to_read(last_table_);
        prefetch_to_write(ring_ + used_.offset);
    }

    // Writes the element; only the flags of the first one staged wait for publish().  The driver takes
    // elements in order, so it meets none of them before that one.
    void push(ChainTicket ticket, std::uint32_t written_bytes) {
        if (ring_ == nullptr) [[unlikely]]
            return; // set_memory() lost the ring
        if (ticket.descriptor_count == 0 || ticket.descriptor_count > in_flight_) [[unlikely]] {
            break_queue(
                "more entries were given back than taken: was the vring base changed under requests?");
            return;
        }
        PackedDescriptor& element = ring_[used_.offset];
        ring_write(element.id, ticket.id);
        ring_write(element.bytes, written_bytes);
        const auto flags =
            static_cast<std::uint16_t>(packed_used_flags(used_.wrap) | (written_bytes > 0 ? kDescWrite : 0));
        if (staged_ == 0) {
            first_offset_ = used_.offset;
            first_flags_ = flags;
        } else {
            ring_store(element.flags, flags, std::memory_order_relaxed);
        }
        staged_ += ticket.descriptor_count;
        in_flight_ -= ticket.descriptor_count;
        used_.advance(ticket.descriptor_count, size_);
    }

    bool publish() {
        if (staged_ == 0) return false;
        const std::uint32_t count = std::exchange(staged_, 0);
        if (ring_ == nullptr) [[unlikely]]
            return false;
        // The driver stores its event suppression and then loads these flags; here it is the other way round.
        // With all four seq_cst at least one side sees the other, so no wake-up falls between (2.8.10).
        ring_store(ring_[first_offset_].flags, first_flags_, std::memory_order_seq_cst);
        if (first_publication_) {
            first_publication_ = false;
            return true;
        }
        const std::uint32_t event = ring_load(*driver_event_, std::memory_order_seq_cst);
        return packed_event_wanted(event, used_, count, size_, event_idx_);
    }

    bool has_work() const {
        if (broken()) [[unlikely]]
            return false;
        return packed_available(ring_load(ring_[avail_.offset].flags, std::memory_order_acquire),
                                avail_.wrap);
    }

    void suppress_kicks() {
        // Off altogether also with EVENT_IDX: a position left behind is passed every other lap, and laps of a
        // small ring are short.
        if (kicks_suppressed_) return;
        if (broken()) [[unlikely]]
            return;
        kicks_suppressed_ = true;
        ring_store(*device_event_, packed_event_word(0, kEventDisable), std::memory_order_relaxed);
    }

    bool enable_kicks() {
        if (broken()) [[unlikely]]
            return false;
        kicks_suppressed_ = false;
        const std::uint32_t event =
            event_idx_ ? packed_event_word(avail_.bits(), kEventDesc) : packed_event_word(0, kEventEnable);
        // Mirror image of publish(): the driver stores a head's flags and then loads what is stored here.
        ring_store(*device_event_, event, std::memory_order_seq_cst);
        return packed_available(ring_load(ring_[avail_.offset].flags, std::memory_order_seq_cst),
                                avail_.wrap);
    }

    // Elements staged and not published are lost to a queue made from this.
    std::uint32_t base() const { return avail_.bits() | (static_cast<std::uint32_t>(used_.bits()) << 16); }
    Status set_memory(const GuestMemory& memory);
    bool broken() const { return reason_ != nullptr; }
    const char* reason() const { return reason_ != nullptr ? reason_ : ""; }

private:
    PackedQueue(const GuestMemory& memory, const QueueLayout& layout) : memory_(&memory), layout_(layout) {}

    Status locate(const GuestMemory& memory);
    Result<bool> take(std::uint16_t head_flags, Chain& chain);
    const char* walk(std::uint16_t head_flags, Chain& chain);
    std::unexpected<Errno> break_queue(const char* reason);

    PackedDescriptor* ring_ = nullptr;
    const std::uint32_t* driver_event_ = nullptr;
    std::uint32_t* device_event_ = nullptr;
    const GuestMemory* memory_;
    const char* reason_ = nullptr;
    const void* last_table_ = nullptr; // indirect, of the last chain that had one; never looked at

    std::uint32_t size_ = 0;
    PackedPosition avail_;
    PackedPosition used_;
    std::uint32_t in_flight_ = 0;    // entries popped and not pushed
    std::uint32_t staged_ = 0;       // entries pushed and not published
    std::uint32_t first_offset_ = 0; // of the first staged element
    std::uint16_t first_flags_ = 0;
    bool event_idx_ = false;
    bool indirect_ = false;
    bool kicks_suppressed_ = false;
    bool first_publication_ = true;

    QueueLayout layout_;
};

} // namespace viaduct::virtio
