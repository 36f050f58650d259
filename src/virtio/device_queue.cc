// SPDX-License-Identifier: Apache-2.0
#include "virtio/device_queue.h"

namespace viaduct::virtio {

Result<DeviceQueue> DeviceQueue::make(const GuestMemory& memory, const QueueLayout& layout) {
    if (layout.packed) {
        TRY(const PackedQueue queue, PackedQueue::make(memory, layout));
        return DeviceQueue{queue};
    }
    TRY(const SplitQueue queue, SplitQueue::make(memory, layout));
    return DeviceQueue{queue};
}

} // namespace viaduct::virtio
