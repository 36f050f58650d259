// SPDX-License-Identifier: Apache-2.0
//
// Split virtqueue, device side (virtio 1.2, section 2.7).  Used through DeviceQueue, which says what the
// members promise.
#pragma once

#include "base/assert.h"
#include "base/result.h"
#include "virtio/guest_memory.h"
#include "virtio/queue_layout.h"
#include "virtio/ring_format.h"

#include <cstdint>

namespace viaduct::virtio {

class SplitQueue {
public:
    // The used index goes on where guest memory says; the available index comes from `layout.base`.
    static Result<SplitQueue> make(const GuestMemory& memory, const QueueLayout& layout);

    Result<bool> pop(Chain& chain) {
        if (broken()) [[unlikely]]
            return fail(EPROTO);
        if (avail_next_ == avail_seen_) {
            const std::uint16_t avail = ring_load(avail_->idx, std::memory_order_acquire);
            if (avail == avail_next_) return false;
            if (!accept_avail(avail)) [[unlikely]]
                return fail(EPROTO);
        }
        return take(chain);
    }

    void approach() const {
        if (broken()) [[unlikely]]
            return;
        prefetch_to_read(avail_);
        prefetch_to_write(used_);
    }
    void expect() const {
        if (broken()) [[unlikely]]
            return;
        prefetch_to_read(&avail_->ring()[avail_next_ & mask_]);
        prefetch_to_read(descriptors_ + 16ULL * last_head_);
        prefetch_to_read(last_table_);
        prefetch_to_write(&used_->ring()[used_next_ & mask_]);
    }

    void push(ChainTicket ticket, std::uint32_t written_bytes) {
        if (used_ == nullptr) [[unlikely]]
            return; // set_memory() lost the ring
        ASSERT(ticket.id < size_);
        UsedElement& element = used_->ring()[used_next_ & mask_];
        ring_write(element.id, ticket.id);
        ring_write(element.bytes, written_bytes);
        ++used_next_;
        if (in_flight_ > 0) --in_flight_;
    }

    bool publish() {
        if (used_next_ == used_published_) return false;
        if (used_ == nullptr) [[unlikely]]
            return false;
        const std::uint16_t before = used_published_;
        used_published_ = used_next_;
        // The driver stores used_event (or flags) and then loads used.idx; here it is the other way round.
        // With all four seq_cst at least one side sees the other, so no wake-up falls between (2.7.7.2).
        ring_store(used_->idx, used_next_, std::memory_order_seq_cst);
        if (first_publication_) {
            first_publication_ = false;
            return true;
        }
        if (event_idx_)
            return event_passed(ring_load(*used_event(), std::memory_order_seq_cst), used_next_, before);
        return (ring_load(avail_->flags, std::memory_order_seq_cst) & kAvailNoInterrupt) == 0;
    }

    bool has_work() {
        if (broken()) [[unlikely]]
            return false;
        if (avail_next_ != avail_seen_) return true;
        const std::uint16_t avail = ring_load(avail_->idx, std::memory_order_acquire);
        if (avail == avail_next_) return false;
        accept_avail(avail); // if it breaks the queue, pop() tells
        return true;
    }

    void suppress_kicks() {
        // With EVENT_IDX the driver compares with avail_event alone: left where it is, it is passed once in
        // 65536 chains.
        if (event_idx_ || kicks_suppressed_) return;
        if (broken()) [[unlikely]]
            return;
        kicks_suppressed_ = true;
        ring_store(used_->flags, kUsedNoNotify, std::memory_order_relaxed);
    }

    bool enable_kicks() {
        if (broken()) [[unlikely]]
            return false;
        kicks_suppressed_ = false;
        // Mirror image of publish(): the driver stores avail.idx and then loads what is stored here
        // (2.7.13.3).
        if (event_idx_) {
            ring_store(*avail_event(), avail_next_, std::memory_order_seq_cst);
        } else {
            ring_store(used_->flags, 0, std::memory_order_seq_cst);
        }
        return ring_load(avail_->idx, std::memory_order_seq_cst) != avail_next_;
    }

    std::uint32_t base() const { return avail_next_; }
    Status set_memory(const GuestMemory& memory);
    bool broken() const { return reason_ != nullptr; }
    const char* reason() const { return reason_ != nullptr ? reason_ : ""; }

private:
    SplitQueue(const GuestMemory& memory, const QueueLayout& layout) : memory_(&memory), layout_(layout) {}

    Status locate(const GuestMemory& memory);
    bool accept_avail(std::uint16_t avail);
    Result<bool> take(Chain& chain);
    const char* walk(std::uint16_t head, Chain& chain);
    std::unexpected<Errno> break_queue(const char* reason);

    // The driver's field behind the available ring, and ours behind the used ring (2.7.10).
    const std::uint16_t* used_event() const { return &avail_->ring()[size_]; }
    std::uint16_t* avail_event() const { return reinterpret_cast<std::uint16_t*>(&used_->ring()[size_]); }

    const std::byte* descriptors_ = nullptr;
    const AvailRing* avail_ = nullptr;
    UsedRing* used_ = nullptr;
    const GuestMemory* memory_;
    const char* reason_ = nullptr;
    const void* last_table_ = nullptr; // indirect, of the last chain that had one; never looked at

    std::uint32_t size_ = 0;
    std::uint16_t mask_ = 0;
    std::uint16_t avail_next_ = 0;     // next entry of the available ring
    std::uint16_t avail_seen_ = 0;     // avail.idx when it was last looked at
    std::uint16_t used_next_ = 0;      // next entry of the used ring
    std::uint16_t used_published_ = 0; // used.idx as the driver sees it
    std::uint16_t in_flight_ = 0;      // chains popped and not pushed
    std::uint16_t last_head_ = 0;      // below size_
    bool event_idx_ = false;
    bool indirect_ = false;
    bool kicks_suppressed_ = false;
    bool first_publication_ = true;

    QueueLayout layout_;
};

} // namespace viaduct::virtio
