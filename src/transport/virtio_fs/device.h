// SPDX-License-Identifier: Apache-2.0
//
// A virtio-fs device (virtio 1.2, section 5.11) behind the vhost-user state machine.
//
// Lives on the control thread and reaches its queues by calls to the workers that own them.
#pragma once

#include "rt/gate.h"
#include "transport/virtio_fs/queue_port.h"
#include "vhost/device_operations.h"

#include <array>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace viaduct::transport {

// Bytes of the tag in the configuration space (5.11.4).
inline constexpr std::size_t kTagBytes = 36;

// What takes the device's requests, and is told when the client behind them is gone.
class DeviceSink : public fuse::RequestSink {
public:
    // Every queue is stopped and no request is in flight: the client's state is dropped.  Control thread.
    virtual rt::Task<void> end_client() = 0;
    // Requests are about to be waited for, at a stop or a reset: those that wait for other clients, and may
    // do so for ever, end now.  Any thread.
    virtual void end_endless_waits() {}

protected:
    ~DeviceSink() = default;
};

struct DeviceOptions {
    std::string tag; // empty: no configuration space is offered
    std::uint16_t request_queues_max = 64;
    bool packed = true; // offer VIRTIO_F_RING_PACKED
    std::chrono::milliseconds drain_timeout{10'000};
};

class Device final : public vhost::DeviceOperations {
public:
    // Gives the worker for a queue index.  `sink` and the workers outlive the device.
    using Placement = std::function<rt::Worker&(std::uint16_t index)>;
    Device(DeviceOptions options, Placement placement, DeviceSink& sink);
    ~Device();

    std::uint64_t features() const override;
    std::uint16_t queue_count() const override;
    std::span<const std::byte> config() const override;
    // Each queue is told with its layout what was agreed.
    void set_features(std::uint64_t) override {}
    rt::Task<Status> set_memory(std::shared_ptr<const vhost::MemoryTable> table, bool drain) override;
    rt::Task<Status> start_queue(std::uint16_t index, vhost::QueueSetup setup) override;
    rt::Task<Status> stop_queue(std::uint16_t index, std::uint32_t& base) override;
    rt::Task<Status> enable_queue(std::uint16_t index, bool enabled) override;
    rt::Task<Status> set_queue_call(std::uint16_t index, Fd call) override;
    rt::Task<Status> set_queue_error(std::uint16_t index, Fd error) override;
    rt::Task<void> reset() override;

    bool dead() const noexcept override { return dead_; }
    // The front end shrank a file that is mapped here.
    bool memory_lost() const noexcept { return table_ && table_->lost(); }
    // Waits for requests that outlived the device; only then may it be destroyed.
    rt::Task<void> outlived();

    struct QueueReport {
        std::uint16_t index;
        const QueueStats* stats; // lives as long as the device
    };
    std::vector<QueueReport> queues() const;

private:
    Status declare_dead(const char* why);
    // Runs `change` on the worker that owns the queue.  EINVAL: it was never started.
    template <class Change> rt::Task<Status> on_owner(std::uint16_t index, Change change);
    rt::Task<bool> drain_port(QueuePort& port, bool old_memory_only);
    rt::Task<void> drain_into(QueuePort& port, char& drained);
    rt::Task<void> stop_port(QueuePort& port, bool& drained);

    const DeviceOptions options_;
    const Placement placement_;
    DeviceSink& sink_;
    std::array<std::byte, kTagBytes + sizeof(std::uint32_t)> config_{};
    std::shared_ptr<const vhost::MemoryTable> table_ = std::make_shared<vhost::MemoryTable>();
    std::vector<std::unique_ptr<QueuePort>> ports_; // by index; made when first started
    bool dead_ = false;
};

} // namespace viaduct::transport
