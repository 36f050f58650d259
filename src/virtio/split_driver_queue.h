// SPDX-License-Identifier: Apache-2.0
//
// Split virtqueue, driver side (virtio 1.2, section 2.7).  Made by DriverQueue::make().
#pragma once

#include "virtio/driver_queue.h"
#include "virtio/ring_format.h"

#include <cstdint>
#include <vector>

namespace viaduct::virtio {

class SplitDriverQueue final : public DriverQueue {
public:
    SplitDriverQueue(const DriverQueueOptions& options, std::byte* memory, GuestAddress address);

    Status stage(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                 void* token) override;
    void publish() override;
    bool should_kick() override;
    bool has_used() const override;
    Result<std::optional<Used>> poll() override;
    void disable_interrupts() override;
    bool enable_interrupts() override { return enable_interrupts_after(1); }
    bool enable_interrupts_after(std::uint16_t count) override;
    std::uint32_t free_descriptors() const override { return free_count_; }
    std::uint32_t in_flight() const override { return in_flight_; }
    Addresses addresses() const override;

    static std::size_t ring_bytes(const DriverQueueOptions& options);

private:
    // A chain that the device has, kept at its head; entries == 0: no chain begins there.
    struct Slot {
        void* token = nullptr;
        std::uint64_t writable_bytes = 0;
        std::uint16_t entries = 0;
        std::uint16_t next = 0; // of the free list, and of the chain while it is out
    };

    void write_descriptor(SplitDescriptor* to, const GuestRange& range, std::uint16_t flags,
                          std::uint16_t next);
    std::uint16_t add_direct(std::span<const GuestRange> readable, std::span<const GuestRange> writable);
    std::uint16_t add_indirect(std::span<const GuestRange> readable, std::span<const GuestRange> writable);
    void release(std::uint16_t head);
    void approach_next() const noexcept;
    std::unexpected<Errno> break_queue();

    // used_event behind the available ring is ours, avail_event behind the used ring the device's (2.7.10).
    std::uint16_t* used_event() const { return &avail_->ring()[options_.size]; }
    const std::uint16_t* avail_event() const {
        return reinterpret_cast<const std::uint16_t*>(&used_->ring()[options_.size]);
    }

    DriverQueueOptions options_;
    GuestAddress address_;
    std::byte* memory_;
    SplitDescriptor* descriptors_;
    AvailRing* avail_;
    const UsedRing* used_;
    std::uint64_t indirect_tables_ = 0; // offset

    std::vector<Slot> slots_;
    std::uint32_t free_count_;
    std::uint32_t in_flight_ = 0;
    std::uint32_t added_ = 0;  // chains since the last should_kick()
    std::uint32_t staged_ = 0; // chains since the last publish()
    std::uint16_t free_head_ = 0;
    std::uint16_t mask_;
    std::uint16_t avail_next_ = 0;
    std::uint16_t used_next_ = 0;
    std::uint16_t used_seen_ = 0; // used.idx when it was last looked at
    bool broken_ = false;
};

} // namespace viaduct::virtio
