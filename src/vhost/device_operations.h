// SPDX-License-Identifier: Apache-2.0
//
// What the vhost-user state machine asks of the device behind it.
//
// All calls on the control thread, one at a time.  A Task ends when the change is in force on whatever worker
// owns the queue: only then is the front end answered.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/task.h"
#include "vhost/memory_table.h"
#include "virtio/queue_layout.h"

#include <cstdint>
#include <memory>
#include <span>

namespace viaduct::vhost {

// Everything a queue needs to run.
struct QueueSetup {
    virtio::QueueLayout layout;
    Fd kick; // an eventfd; invalid: the front end wants to be polled
    Fd call; // invalid: no interrupts
    Fd error;
    bool enabled = false;
};

class DeviceOperations {
public:
    // Device feature bits offered (virtio ones; vhost-user's PROTOCOL_FEATURES bit is not the device's).
    virtual std::uint64_t features() const = 0;
    // Queues the device has: hiprio and request queues.
    virtual std::uint16_t queue_count() const = 0;
    // The device's configuration space; empty where CONFIG is not offered.
    virtual std::span<const std::byte> config() const = 0;

    virtual void set_features(std::uint64_t features) = 0;
    // A new memory table is in force when this ends.  Requests that wait keep the old one.  When `drain` is
    // set some memory of the old table is not in the new one: requests on it are ended first (drain
    // time-out). EINVAL: a running queue's ring is not in the new table.
    virtual rt::Task<Status> set_memory(std::shared_ptr<const MemoryTable> table, bool drain) = 0;

    // Starts a queue that is stopped.  Nothing is processed until it is also enabled.
    virtual rt::Task<Status> start_queue(std::uint16_t index, QueueSetup setup) = 0;
    // Stops a queue: when this ends, none of its requests is running and nothing of it touches guest memory.
    // The result is DeviceQueue::base().  ETIMEDOUT: requests would not end, the memory was detached and the
    // device is dead; the base is still reported through `base`.
    virtual rt::Task<Status> stop_queue(std::uint16_t index, std::uint32_t& base) = 0;
    // For a queue that is started.
    virtual rt::Task<Status> enable_queue(std::uint16_t index, bool enabled) = 0;
    virtual rt::Task<Status> set_queue_call(std::uint16_t index, Fd call) = 0;
    virtual rt::Task<Status> set_queue_error(std::uint16_t index, Fd error) = 0;

    // RESET_DEVICE and the end of a connection: every queue is stopped and disabled, the FUSE
    // session ended, memory let go.
    virtual rt::Task<void> reset() = 0;

    // Requests would not end in time and the memory was taken away from them: the front end gets the answer
    // to its present message, and is then let go.
    virtual bool dead() const { return false; }

protected:
    ~DeviceOperations() = default;
};

} // namespace viaduct::vhost
