// SPDX-License-Identifier: Apache-2.0
//
// Packed virtqueue, driver side (virtio 1.2, section 2.8).  Made by DriverQueue::make().
#pragma once

#include "virtio/driver_queue.h"
#include "virtio/ring_format.h"

#include <cstdint>
#include <vector>

namespace viaduct::virtio {

class PackedDriverQueue final : public DriverQueue {
public:
    PackedDriverQueue(const DriverQueueOptions& options, std::byte* memory, GuestAddress address);

    Status stage(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                 void* token) override;
    void publish() override {} // stage() has, as flags stand in the entries themselves
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
    // A chain that the device has, kept at its buffer id; entries == 0: the id is free.
    struct Slot {
        void* token = nullptr;
        std::uint64_t writable_bytes = 0;
        std::uint16_t entries = 0;
        std::uint16_t next_free = 0;
    };

    void write_entry(PackedDescriptor& to, const GuestRange& range, std::uint16_t id);
    void add_direct(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                    std::uint16_t id);
    void add_indirect(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                      std::uint16_t id);
    bool used_at_next(std::memory_order order) const;
    std::unexpected<Errno> break_queue();

    DriverQueueOptions options_;
    GuestAddress address_;
    std::byte* memory_;
    PackedDescriptor* ring_;
    std::uint32_t* driver_event_;
    const std::uint32_t* device_event_;
    std::uint64_t indirect_tables_ = 0; // offset

    std::vector<Slot> slots_;
    std::uint32_t free_count_;
    std::uint32_t in_flight_ = 0;
    std::uint32_t added_entries_ = 0; // since the last should_kick()
    std::uint16_t free_id_ = 0;
    PackedPosition avail_;
    PackedPosition used_;
    bool broken_ = false;
};

} // namespace viaduct::virtio
