// SPDX-License-Identifier: Apache-2.0
//
// Rings written entry by entry, for chains that no driver makes.
#pragma once

#include "support/raw_guest.h"
#include "virtio/ring_format.h"

#include <cstdint>
#include <vector>

namespace viaduct::test {

// A split ring in the memory that a RawGuest has for the queue; freshly laid out, or at `base`.
class SplitRing {
public:
    SplitRing(RawGuest& guest, std::uint32_t queue, std::uint32_t size, std::uint16_t base = 0)
        : size_(size), next_(base) {
        const auto parts = guest.ring(queue).addresses();
        std::byte* const start = guest.at(guest.ring_offset(queue));
        descriptors_ = reinterpret_cast<virtio::SplitDescriptor*>(start + parts.descriptor_area);
        avail_ = reinterpret_cast<virtio::AvailRing*>(start + parts.driver_area);
        used_ = reinterpret_cast<virtio::UsedRing*>(start + parts.device_area);
        avail_->idx = base;
        used_->idx = base;
    }
    virtio::SplitDescriptor& descriptor(std::uint32_t index) { return descriptors_[index]; }
    // Not seen by the device before publish().
    void offer(std::uint16_t head) { avail_->ring()[next_++ % size_] = head; }
    void publish() { publish(next_); }
    void publish(std::uint16_t index) { __atomic_store_n(&avail_->idx, index, __ATOMIC_SEQ_CST); }
    std::uint16_t next() const noexcept { return next_; }
    std::uint16_t used_index() const { return __atomic_load_n(&used_->idx, __ATOMIC_ACQUIRE); }
    virtio::UsedElement used(std::uint16_t index) const { return used_->ring()[index % size_]; }

private:
    const std::uint32_t size_;
    virtio::SplitDescriptor* descriptors_ = nullptr;
    virtio::AvailRing* avail_ = nullptr;
    virtio::UsedRing* used_ = nullptr;
    std::uint16_t next_;
};

// Writes the chain from entry 0 of a fresh packed ring on.  Flags without the two that say whose it is.
inline void write_packed(RawGuest& guest, std::uint32_t queue,
                         const std::vector<virtio::PackedDescriptor>& chain) {
    auto* const ring = reinterpret_cast<virtio::PackedDescriptor*>(guest.at(guest.ring_offset(queue)));
    for (std::size_t index = chain.size(); index > 0; --index) {
        virtio::PackedDescriptor& to = ring[index - 1];
        to.address = chain[index - 1].address;
        to.bytes = chain[index - 1].bytes;
        to.id = chain[index - 1].id;
        const auto flags =
            static_cast<std::uint16_t>(chain[index - 1].flags | virtio::packed_available_flags(true));
        __atomic_store_n(&to.flags, flags, __ATOMIC_SEQ_CST);
    }
}

} // namespace viaduct::test
