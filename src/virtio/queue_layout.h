// SPDX-License-Identifier: Apache-2.0
//
// What both sides of a virtqueue agree on before the first request.
#pragma once

#include "virtio/guest_memory.h"

#include <cstdint>
#include <sys/uio.h>
#include <vector>

namespace viaduct::virtio {

// Feature bits of virtio 1.2, section 6.
inline constexpr std::uint64_t kFeatureIndirectDesc = 1ULL << 28;
inline constexpr std::uint64_t kFeatureEventIdx = 1ULL << 29;
inline constexpr std::uint64_t kFeatureVersion1 = 1ULL << 32;
inline constexpr std::uint64_t kFeatureRingPacked = 1ULL << 34;
inline constexpr std::uint64_t kFeatureRingReset = 1ULL << 40;

inline constexpr std::uint32_t kQueueSizeMax = 32768;

// Where a ring lies and how it is read.  Addresses are the front end's user addresses, as SET_VRING_ADDR
// sends them.  Packed: descriptor ring, driver event suppression (`driver_area`), device event suppression.
struct QueueLayout {
    bool packed = false;
    bool event_idx = false;
    bool indirect = false;
    std::uint32_t size = 0; // entries
    std::uint64_t descriptor_area = 0;
    std::uint64_t driver_area = 0; // split: available ring
    std::uint64_t device_area = 0; // split: used ring
    std::uint32_t base = 0;        // where to go on, in the form that DeviceQueue::base() gives
};

// Names a popped chain when it is given back.
struct ChainTicket {
    std::uint16_t id = 0;               // split: head index; packed: buffer id
    std::uint16_t descriptor_count = 0; // ring entries taken (packed needs it to skip them)
};

// The descriptors of one request and its reply.  Its vectors keep their capacity from request to request.
struct Chain {
    ChainTicket ticket;
    std::vector<iovec> readable; // device-readable segments, in order; zero-length parts left out
    std::vector<iovec> writable;
    std::uint64_t readable_bytes = 0;
    std::uint64_t writable_bytes = 0;
};

} // namespace viaduct::virtio
