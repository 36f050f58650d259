// SPDX-License-Identifier: Apache-2.0
//
// A vhost-user-fs device as a driver has it: a socket, shared memory, hiprio and request queues.
//
// Calls that talk to the device are serialised and synchronous, from any thread but a worker's; requests go
// to the queues and need none of that.  A thread of the device's own watches the socket and the queues' error
// fds: when the device leaves, everything in flight ends with ECONNABORTED, and what comes later with
// ENOTCONN.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "base/sync.h"
#include "driver/background_limit.h"
#include "driver/completion_threads.h"
#include "driver/dma_arena.h"
#include "driver/request_queue.h"
#include "topology/queue_map.h"
#include "vhost/front_end.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

namespace viaduct::driver {

struct DeviceOptions {
    std::string socket;
    std::uint32_t request_queues = 1; // cut down to what the device has
    std::uint32_t queue_size = 128;
    // What to ask for; taken as far as the device offers it.
    bool packed = false;
    bool event_idx = true;
    bool indirect = true;
    DmaArena::Options memory;
    // CPUs of each request queue; one that is missing makes all of them void.  Then `policy` decides, by the
    // CPUs of this machine or of `machine`; where they cannot be told all use the first request queue.
    std::vector<std::optional<topology::CpuSet>> queue_cpus;
    topology::QueuePolicy policy = topology::QueuePolicy::even;
    std::optional<topology::Topology> machine;
    // A thread for each queue ends what comes back; otherwise whoever polls or waits does.
    bool completion_threads = false;
    // Those of request queues run on the CPUs of their queue, while it is started; one queue alone and hiprio
    // are not bound.
    bool affinity = true;
    std::uint32_t max_background = BackgroundLimit::kDefault;
    // Of drain() and remove().
    std::chrono::milliseconds drain_timeout{30'000};
    // For each message; a stop waits for the device's requests, so it is longer than a device's drain
    // time-out.
    std::chrono::milliseconds message_timeout{15'000};
    bool start = true; // the queues, in connect()
};

class Device {
public:
    static Outcome<std::unique_ptr<Device>> connect(const DeviceOptions& options);
    ~Device(); // disconnects

    // Request queues in use; at most what was asked for.
    std::uint32_t request_queue_count() const noexcept {
        return static_cast<std::uint32_t>(queues_.size()) - 1;
    }
    RequestQueue& hiprio() noexcept { return *queues_.front().queue; }
    RequestQueue& request_queue(std::uint32_t index) noexcept { return *queues_[1 + index].queue; }
    // A CPU that no queue has uses the first request queue.
    std::uint32_t request_queue_of_cpu(int cpu) const noexcept;
    // What completions of a request queue are bound to: empty for one queue alone, or without a CPU.
    topology::CpuSet completion_cpus(std::uint32_t request_queue) const;
    const topology::QueueMap& queue_map() const noexcept { return *queue_map_; }
    RequestQueue& queue_of_current_cpu() noexcept;
    const virtio::DriverQueueOptions& ring_options() const noexcept { return ring_options_; }
    DmaArena& memory() noexcept { return *arena_; }
    BackgroundLimit& background() noexcept { return background_; }
    // Null without completion_threads; index 0 is hiprio's.
    CompletionThreads* completion_threads() noexcept { return completion_threads_.get(); }
    // false: the device has left.
    bool alive() const noexcept { return alive_.load(std::memory_order_acquire); }

    // The process that listens on the socket; 0 when it cannot be told.
    pid_t peer_pid() const noexcept;

    // Queues are named by their index in the device: 0 hiprio, request queues from 1 on.
    // A queue that was stopped with nothing left on its ring goes on where it was, otherwise it begins anew.
    Status start_queue(std::uint32_t index);
    // Waits for the device to give back what it has (GET_VRING_BASE); requests that it keeps end with
    // ECONNABORTED, parked ones wait for the next start.
    Status stop_queue(std::uint32_t index);
    Status enable_queue(std::uint32_t index, bool enabled);
    Status start();
    Status stop();
    // RESET_DEVICE (as far as the device has that) between stop() and start(): all rings begin anew.
    Status reset();

    // More memory, known to the device when this returns.
    Result<const DmaRegion*> add_memory(std::uint64_t bytes);
    // The device may not use the region any more when this returns.
    Status remove_memory(const DmaRegion& region);

    // Until nothing is in flight on any queue; requests are still taken meanwhile.  ETIMEDOUT.
    Status drain();
    // The orderly end: requests are refused (ENOTCONN), parked ones end with ENOTCONN, what the device has is
    // waited for, queues are stopped and the socket is closed.  ETIMEDOUT: the device kept requests, which
    // have ended with ECONNABORTED.  Another error: it left meanwhile.
    Status remove();
    // Everything in flight ends with ECONNABORTED; the socket is closed.
    void disconnect();

    // For messages of one's own.  Hold nothing else of this device meanwhile.
    vhost::FrontEnd& front_end() noexcept { return *front_end_; }

private:
    struct Queue {
        std::unique_ptr<RequestQueue> queue;
        DmaBuffer ring_memory;
        virtio::DriverQueue::Addresses addresses;
        std::optional<std::uint32_t> base; // where the ring goes on; none: it begins anew
        bool started = false;
    };

    Device(const DeviceOptions& options, vhost::FrontEnd front_end, Fd watched)
        : options_(options), background_(options.max_background), front_end_(std::move(front_end)),
          watched_(std::move(watched)) {}

    Outcome<void> negotiate();
    Outcome<void> set_up();
    void map_cpus();
    Status drain_until(Deadline deadline);
    Status share_memory(const std::vector<const DmaRegion*>& regions);
    Status lay_out(Queue& queue);
    Status announce(std::uint32_t index, const Queue& queue);
    Status check(Status status);
    void watch();
    void die();

    const DeviceOptions options_;
    std::unique_ptr<DmaArena> arena_;
    virtio::DriverQueueOptions ring_options_;
    BackgroundLimit background_;
    std::vector<Queue> queues_; // as many as there will ever be, after connect()
    std::optional<topology::QueueMap> queue_map_;
    std::unique_ptr<CompletionThreads> completion_threads_;

    sync::Mutex control_; // guards front_end_ and the set-up of queues; taken before a queue's lock
    std::optional<vhost::FrontEnd> front_end_;

    Fd watched_; // the socket once more, for its end only
    Fd stop_watching_;
    std::atomic<bool> alive_{true};
    std::thread watcher_;
};

} // namespace viaduct::driver
