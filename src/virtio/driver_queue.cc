// SPDX-License-Identifier: Apache-2.0
#include "virtio/driver_queue.h"

#include "base/assert.h"
#include "virtio/packed_driver_queue.h"
#include "virtio/split_driver_queue.h"

#include <cstring>

namespace viaduct::virtio {

std::size_t DriverQueue::ring_bytes(const DriverQueueOptions& options) {
    return options.packed ? PackedDriverQueue::ring_bytes(options) : SplitDriverQueue::ring_bytes(options);
}

std::unique_ptr<DriverQueue> DriverQueue::make(const DriverQueueOptions& options, std::byte* memory,
                                               GuestAddress address) {
    ASSERT(options.size >= 1);
    ASSERT(options.size <= kQueueSizeMax);
    ASSERT(reinterpret_cast<std::uintptr_t>(memory) % 4096 == 0);
    std::memset(memory, 0, ring_bytes(options));
    if (options.packed) return std::make_unique<PackedDriverQueue>(options, memory, address);
    return std::make_unique<SplitDriverQueue>(options, memory, address);
}

} // namespace viaduct::virtio
