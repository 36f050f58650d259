// SPDX-License-Identifier: Apache-2.0
//
// A virtqueue, driver side: split (virtio 1.2, section 2.7) or packed (2.8).
//
// Descriptors name memory of the caller by guest address; the caller keeps it alive until the chain comes
// back. No locks: whoever owns the queue serialises.  The device is not trusted: what it may write is only
// compared with what the driver keeps for itself.
#pragma once

#include "base/result.h"
#include "virtio/queue_layout.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace viaduct::virtio {

// A piece of memory that the device may use.
struct GuestRange {
    GuestAddress address{};
    std::uint32_t bytes = 0;
};

struct DriverQueueOptions {
    bool packed = false;
    bool event_idx = false;
    bool indirect = false; // use indirect tables for chains of more than one descriptor
    std::uint32_t size = 0;
};

class DriverQueue {
public:
    // Bytes of ring memory (page aligned parts included) that a queue of these options needs, indirect tables
    // included: `size` tables of `indirect_entries_max` entries each when `indirect` is set.
    static std::size_t ring_bytes(const DriverQueueOptions& options);
    // Most descriptors in one indirect table.
    static constexpr std::uint32_t kIndirectEntriesMax = 512;

    // Lays the ring out in `memory` (ring_bytes() long, 4096-aligned, zeroed here), which the device sees at
    // guest address `address`.
    static std::unique_ptr<DriverQueue> make(const DriverQueueOptions& options, std::byte* memory,
                                             GuestAddress address);
    virtual ~DriverQueue() = default;

    // Puts a chain on the ring; the device sees it after publish() or should_kick(), or before. `token` comes
    // back from poll().
    // ENOSPC: not enough free descriptors; EINVAL: an empty chain or one longer than the format allows.
    virtual Status stage(std::span<const GuestRange> readable, std::span<const GuestRange> writable,
                         void* token) = 0;
    // The device sees what was staged.
    virtual void publish() = 0;
    // Both.
    Status add(std::span<const GuestRange> readable, std::span<const GuestRange> writable, void* token) {
        TRY_STATUS(stage(readable, writable, token));
        publish();
        return {};
    }
    // After one or more stage(): does the device want to be kicked?  Asked once per batch.
    virtual bool should_kick() = 0;

    struct Used {
        void* token = nullptr;
        std::uint32_t written_bytes = 0;
    };
    // Will poll() have something to say?  One load of ring memory.
    virtual bool has_used() const = 0;
    // The next chain that the device has given back.
    // EIO: the device named a chain that it did not have, or claims to have written more than there was room
    // for; the queue then answers EIO for good.
    virtual Result<std::optional<Used>> poll() = 0;
    // Interrupts off; a hint.
    virtual void disable_interrupts() = 0;
    // Interrupts on.  true: something came back meanwhile and no interrupt may come for it.
    virtual bool enable_interrupts() = 0;
    // Like enable_interrupts(), but asks to be interrupted only when `count` more chains have come back
    // (EVENT_IDX; without it the same as enable_interrupts()).  A hint: the interrupt may come earlier, and a
    // `count` beyond what is in flight is cut down to it.
    virtual bool enable_interrupts_after(std::uint16_t count) = 0;

    virtual std::uint32_t free_descriptors() const = 0;
    virtual std::uint32_t in_flight() const = 0;
    // Offsets of the three parts from the start of the ring memory.  SET_VRING_ADDR wants them added to the
    // user address under which the device's memory table knows that memory.
    struct Addresses {
        std::uint64_t descriptor_area = 0;
        std::uint64_t driver_area = 0;
        std::uint64_t device_area = 0;
    };
    virtual Addresses addresses() const = 0;
};

} // namespace viaduct::virtio
