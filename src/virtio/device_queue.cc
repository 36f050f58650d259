// SPDX-License-Identifier: Apache-2.0
#include "virtio/device_queue.h"

namespace viaduct::virtio {

Result<DeviceQueue> DeviceQueue::make(const GuestMemory& memory, const QueueLayout& layout) {
    if (layout.packed) {
        TRY(PackedQueue queue, PackedQueue::make(memory, layout));
        return DeviceQueue{std::move(queue)};
    }
    TRY(SplitQueue queue, SplitQueue::make(memory, layout));
    return DeviceQueue{std::move(queue)};
}

} // namespace viaduct::virtio
