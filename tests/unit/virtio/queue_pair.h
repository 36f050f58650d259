// SPDX-License-Identifier: Apache-2.0
//
// A driver queue and a device queue over the same memory.
#pragma once

#include "unit/virtio/page_memory.h"
#include "virtio/device_queue.h"
#include "virtio/driver_queue.h"

#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

namespace viaduct::virtio {

inline std::ostream& operator<<(std::ostream& out, const DriverQueueOptions& options) {
    return out << (options.packed ? "packed" : "split") << (options.event_idx ? "_event_idx" : "")
               << (options.indirect ? "_indirect" : "") << "_" << options.size;
}
inline std::string name_of(const DriverQueueOptions& options) {
    return std::string{options.packed ? "packed" : "split"} + (options.event_idx ? "_event_idx" : "") +
           (options.indirect ? "_indirect" : "") + "_" + std::to_string(options.size);
}

class QueuePair {
public:
    explicit QueuePair(const DriverQueueOptions& options, std::size_t data_bytes = 4096)
        : data_start_((DriverQueue::ring_bytes(options) + 4095) / 4096 * 4096),
          memory_(data_start_ + data_bytes), view_(memory_.view()),
          driver_(DriverQueue::make(options, memory_.at(0), PageMemory::guest(0))),
          layout_(layout_of(options, *driver_)), device_(DeviceQueue::make(view_, layout_).value()) {}

    DriverQueue& driver() { return *driver_; }
    DeviceQueue& device() { return device_; }
    const GuestMemory& view() const { return view_; }
    const QueueLayout& layout() const { return layout_; }
    const PageMemory& memory() const { return memory_; }
    GuestRange data(std::size_t offset, std::uint32_t bytes) const {
        return {.address = PageMemory::guest(data_start_ + offset), .bytes = bytes};
    }
    std::byte* data_host(std::size_t offset) const { return memory_.at(data_start_ + offset); }

    // A device made anew where the present one stands.
    void restart_device() {
        layout_.base = device_.base();
        device_ = DeviceQueue::make(view_, layout_).value();
    }

    // The usual request: 80 bytes to read, 104 to write.
    Status add(std::uintptr_t token) {
        const GuestRange readable[] = {data(0, 80)};
        const GuestRange writable[] = {data(1024, 104)};
        return driver_->add(readable, writable, reinterpret_cast<void*>(token));
    }

private:
    static QueueLayout layout_of(const DriverQueueOptions& options, const DriverQueue& driver) {
        const DriverQueue::Addresses offsets = driver.addresses();
        return {.packed = options.packed,
                .event_idx = options.event_idx,
                .indirect = options.indirect,
                .size = options.size,
                .descriptor_area = PageMemory::user(offsets.descriptor_area),
                .driver_area = PageMemory::user(offsets.driver_area),
                .device_area = PageMemory::user(offsets.device_area),
                .base = options.packed ? 0x8000'8000U : 0U};
    }

    std::size_t data_start_;
    PageMemory memory_;
    GuestMemory view_;
    std::unique_ptr<DriverQueue> driver_;
    QueueLayout layout_;
    DeviceQueue device_;
};

} // namespace viaduct::virtio
