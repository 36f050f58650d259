// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of a ring lie in the memory that a driver queue is given.
#pragma once

#include "virtio/driver_queue.h"

#include <cstddef>
#include <cstdint>

namespace viaduct::virtio {

// Each part begins a page: what one side writes shares no cache line with what the other side writes, and
// device and driver area could be mapped with different rights.
inline constexpr std::uint64_t kRingPageBytes = 4096;
constexpr std::uint64_t whole_pages(std::uint64_t bytes) {
    return (bytes + kRingPageBytes - 1) / kRingPageBytes * kRingPageBytes;
}

struct DriverRingLayout {
    std::uint64_t driver_area = 0; // the descriptor area begins at 0
    std::uint64_t device_area = 0;
    std::uint64_t indirect_tables = 0;
    std::uint64_t bytes = 0;
};

inline constexpr std::uint64_t kIndirectTableBytes = 16ULL * DriverQueue::kIndirectEntriesMax;

constexpr DriverRingLayout driver_ring_layout(const DriverQueueOptions& options,
                                              std::uint64_t descriptor_bytes, std::uint64_t driver_bytes,
                                              std::uint64_t device_bytes) {
    DriverRingLayout layout;
    layout.driver_area = whole_pages(descriptor_bytes);
    layout.device_area = layout.driver_area + whole_pages(driver_bytes);
    layout.indirect_tables = layout.device_area + whole_pages(device_bytes);
    layout.bytes = layout.indirect_tables + (options.indirect ? kIndirectTableBytes * options.size : 0);
    return layout;
}

} // namespace viaduct::virtio
