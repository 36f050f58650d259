// SPDX-License-Identifier: Apache-2.0
//
// Rings written by hand, as a guest that keeps no rules writes them.
#pragma once

#include "unit/virtio/page_memory.h"
#include "virtio/queue_layout.h"
#include "virtio/ring_format.h"

#include <cstdint>

namespace viaduct::virtio {

struct GuestRingOptions {
    std::uint32_t size = 8;
    bool event_idx = false;
    bool indirect = false;
    std::uint16_t base = 0; // split: where both indexes begin
};

// What a descriptor says when the test does not care: 16 bytes at the start of the data page.
struct GuestDescriptor {
    std::uint64_t address = PageMemory::kGuestStart;
    std::uint32_t bytes = 16;
    std::uint16_t flags = 0;
    std::uint16_t next = 0;
};

class GuestRing {
public:
    // From the start of the memory: data, tables, descriptors, available ring, used ring.
    static constexpr std::size_t kData = 0;
    static constexpr std::size_t kDataBytes = 1 << 16;
    static constexpr std::size_t kTable = kDataBytes;
    static constexpr std::size_t kTableBytes = 1 << 20;
    static constexpr std::size_t kDescriptors = kTable + kTableBytes;

    explicit GuestRing(const GuestRingOptions& options = {})
        : options_(options), avail_(kDescriptors + 16ULL * options.size),
          used_((avail_ + split_avail_bytes(options.size) + 4095) / 4096 * 4096),
          memory_(used_ + split_used_bytes(options.size)), view_(memory_.view()), avail_idx_(options.base) {
        avail().idx = options.base;
        used().idx = options.base;
    }

    const GuestMemory& memory() const { return view_; }
    QueueLayout layout() const {
        return {.event_idx = options_.event_idx,
                .indirect = options_.indirect,
                .size = options_.size,
                .descriptor_area = PageMemory::user(kDescriptors),
                .driver_area = PageMemory::user(avail_),
                .device_area = PageMemory::user(used_),
                .base = options_.base};
    }
    std::byte* host(std::size_t offset) const { return memory_.at(offset); }

    void write_descriptor(std::uint32_t index, const GuestDescriptor& value) {
        write(kDescriptors + 16ULL * index, value);
    }
    // Entry `index` of an indirect table that begins `offset` bytes into the table area.
    void write_entry(std::uint32_t index, const GuestDescriptor& value, std::size_t offset = 0) {
        write(kTable + offset + 16ULL * index, value);
    }
    static std::uint64_t table_address(std::size_t offset = 0) {
        return PageMemory::kGuestStart + kTable + offset;
    }

    void offer(std::uint16_t head) {
        avail().ring()[avail_idx_ % options_.size] = head;
        set_avail_idx(static_cast<std::uint16_t>(avail_idx_ + 1));
    }
    void set_avail_idx(std::uint16_t index) { avail().idx = avail_idx_ = index; }

    AvailRing& avail() const { return *reinterpret_cast<AvailRing*>(memory_.at(avail_)); }
    UsedRing& used() const { return *reinterpret_cast<UsedRing*>(memory_.at(used_)); }
    std::uint16_t& used_event() const { return avail().ring()[options_.size]; }
    std::uint16_t avail_event() const {
        return *reinterpret_cast<const std::uint16_t*>(&used().ring()[options_.size]);
    }

private:
    void write(std::size_t offset, const GuestDescriptor& value) {
        const SplitDescriptor descriptor{value.address, value.bytes, value.flags, value.next};
        std::memcpy(memory_.at(offset), &descriptor, sizeof descriptor);
    }

    GuestRingOptions options_;
    std::size_t avail_;
    std::size_t used_;
    PageMemory memory_;
    GuestMemory view_;
    std::uint16_t avail_idx_;
};

// The same for a packed ring.  Entries are written where the test says; offer() decides only on the wrap
// bits.
class PackedGuestRing {
public:
    static constexpr std::size_t kTable = 1 << 16;
    static constexpr std::size_t kDriverEvent = kTable + (1 << 20);
    static constexpr std::size_t kDeviceEvent = kDriverEvent + 4;
    static constexpr std::size_t kRing = kDriverEvent + 4096;

    explicit PackedGuestRing(const GuestRingOptions& options = {})
        : options_(options), memory_(kRing + 16ULL * options.size), view_(memory_.view()) {}

    const GuestMemory& memory() const { return view_; }
    QueueLayout layout() const {
        return {.packed = true,
                .event_idx = options_.event_idx,
                .indirect = options_.indirect,
                .size = options_.size,
                .descriptor_area = PageMemory::user(kRing),
                .driver_area = PageMemory::user(kDriverEvent),
                .device_area = PageMemory::user(kDeviceEvent),
                .base = 0x8000'8000U};
    }
    // `next` of the value is the buffer id; `flags` get the bits that make the entry available.
    void write_available(std::uint32_t offset, const GuestDescriptor& value, bool wrap = true) {
        const PackedDescriptor descriptor{
            value.address, value.bytes, value.next,
            static_cast<std::uint16_t>(value.flags | packed_available_flags(wrap))};
        std::memcpy(memory_.at(kRing + 16ULL * offset), &descriptor, sizeof descriptor);
    }
    void write_entry(std::uint32_t index, const GuestDescriptor& value, std::size_t offset = 0) {
        const PackedDescriptor descriptor{value.address, value.bytes, value.next, value.flags};
        std::memcpy(memory_.at(kTable + offset + 16ULL * index), &descriptor, sizeof descriptor);
    }
    static std::uint64_t table_address(std::size_t offset = 0) {
        return PageMemory::kGuestStart + kTable + offset;
    }
    PackedDescriptor& entry(std::uint32_t offset) const {
        return *reinterpret_cast<PackedDescriptor*>(memory_.at(kRing + 16ULL * offset));
    }
    std::uint32_t& driver_event() const {
        return *reinterpret_cast<std::uint32_t*>(memory_.at(kDriverEvent));
    }
    std::uint32_t device_event() const { return *reinterpret_cast<std::uint32_t*>(memory_.at(kDeviceEvent)); }

private:
    GuestRingOptions options_;
    PageMemory memory_;
    GuestMemory view_;
};

} // namespace viaduct::virtio
