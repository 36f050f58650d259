// SPDX-License-Identifier: Apache-2.0
#include "client/connect.h"

#include "topology/cpu_set.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>
#include <unistd.h>

namespace viaduct::client {
namespace {

constexpr long kRequestQueuesMax = 1024;
constexpr std::uint32_t kQueueSizeMin = 4;
constexpr std::uint32_t kQueueSizeMax = 32'768; // virtio 1.2, 2.7
constexpr std::uint64_t kMemoryBytesMax = 1ULL << 40;

Outcome<void> check_map(const DeviceOptions& options, std::uint32_t request_queues) {
    if (!options.queue_of_cpu.empty() && !options.cpus_of_queue.empty())
        return usage_failure("queue_of_cpu and cpus_of_queue are both given; one of them is the queue map");
    for (const std::uint32_t queue : options.queue_of_cpu) {
        if (queue >= request_queues)
            return usage_failure("queue_of_cpu names request queue " + std::to_string(queue) +
                                 ", and request_queues is " + std::to_string(request_queues));
    }
    if (options.queue_of_cpu.size() > topology::kCpuIdMax + 1)
        return usage_failure("queue_of_cpu names more than 8192 CPUs");
    if (!options.cpus_of_queue.empty() && options.cpus_of_queue.size() != request_queues)
        return usage_failure("cpus_of_queue has " + std::to_string(options.cpus_of_queue.size()) +
                             " lists, and request_queues is " + std::to_string(request_queues) +
                             "; each queue wants one, which may be empty");
    for (const auto& cpus : options.cpus_of_queue) {
        for (const std::uint32_t cpu : cpus) {
            if (cpu > topology::kCpuIdMax)
                return usage_failure("cpus_of_queue names CPU " + std::to_string(cpu) +
                                     "; 8191 is the highest there can be");
        }
    }
    return {};
}

Outcome<void> check_memory(const DeviceOptions& options) {
    if (options.memory_bytes_max > kMemoryBytesMax)
        return usage_failure("memory_bytes_max is " + std::to_string(options.memory_bytes_max) +
                             "; 1 TiB is the most");
    if (options.memory_bytes == 0) return usage_failure("memory_bytes is 0");
    if (options.memory_bytes > options.memory_bytes_max)
        return usage_failure("memory_bytes is " + std::to_string(options.memory_bytes) +
                             ", more than memory_bytes_max, which is " +
                             std::to_string(options.memory_bytes_max));
    return {};
}

// Where lists overlap the last one decides, as in Linux.  Unlike there, more queues than CPU ids are no
// reason to drop some: whoever writes lists means them.
std::vector<std::uint32_t> map_of(const std::vector<std::vector<std::uint32_t>>& cpus_of_queue,
                                  std::uint32_t request_queues) {
    std::vector<std::uint32_t> queue_of_cpu;
    const std::size_t queues = std::min<std::size_t>(cpus_of_queue.size(), request_queues);
    for (std::uint32_t queue = 0; queue < queues; ++queue) {
        for (const std::uint32_t cpu : cpus_of_queue[queue]) {
            if (cpu >= queue_of_cpu.size()) queue_of_cpu.resize(cpu + 1, 0);
            queue_of_cpu[cpu] = queue;
        }
    }
    return queue_of_cpu;
}

// The same map as the driver end has it: there it is what completion threads are bound by.
std::vector<std::optional<topology::CpuSet>> masks_of(const std::vector<std::uint32_t>& queue_of_cpu,
                                                      std::uint32_t request_queues) {
    if (queue_of_cpu.empty()) return {};
    std::vector<std::optional<topology::CpuSet>> masks(request_queues, topology::CpuSet{});
    for (std::uint32_t cpu = 0; cpu < queue_of_cpu.size(); ++cpu) masks[queue_of_cpu[cpu]]->add(cpu);
    return masks;
}

// Of one queue; a device may lack packed ones, and then they are split.
std::uint64_t ring_bytes_of(const DeviceOptions& options) {
    virtio::DriverQueueOptions ring{.indirect = options.indirect, .size = options.queue_size};
    const std::size_t split_bytes = virtio::DriverQueue::ring_bytes(ring);
    ring.packed = true;
    // Each ring begins on a page.
    return std::max(split_bytes, virtio::DriverQueue::ring_bytes(ring)) + 4096;
}

} // namespace

Outcome<driver::DeviceOptions> driver_options(const DeviceOptions& options) {
    if (options.request_queues > kRequestQueuesMax)
        return usage_failure("request_queues is " + std::to_string(options.request_queues) +
                             "; 1 to 1024 are possible, and 0 for one per CPU");
    std::uint32_t queues = options.request_queues;
    if (queues == 0)
        queues =
            static_cast<std::uint32_t>(std::clamp(::sysconf(_SC_NPROCESSORS_CONF), 1L, kRequestQueuesMax));
    TRY_STATUS(check_map(options, queues));
    TRY_STATUS(check_memory(options));
    if (!std::has_single_bit(options.queue_size) || options.queue_size < kQueueSizeMin ||
        options.queue_size > kQueueSizeMax)
        return usage_failure("queue_size is " + std::to_string(options.queue_size) +
                             "; a power of two from 4 to 32768 is possible");
    if (options.message_timeout.count() <= 0 || options.call_timeout.count() <= 0 ||
        options.drain_timeout.count() <= 0)
        return usage_failure("message_timeout, call_timeout and drain_timeout must be more than 0");

    // What the caller asks for is for buffers; rings, hiprio's too, come on top.
    const std::uint64_t rings_bytes = (1ULL + queues) * ring_bytes_of(options);
    return driver::DeviceOptions{.socket = options.socket,
                                 .request_queues = queues,
                                 .queue_size = options.queue_size,
                                 .packed = options.packed,
                                 .event_idx = options.event_idx,
                                 .indirect = options.indirect,
                                 .memory = {.bytes = options.memory_bytes + rings_bytes,
                                            .bytes_max = options.memory_bytes_max + rings_bytes},
                                 .queue_cpus = masks_of(given_map(options, queues), queues),
                                 .completion_threads = options.completion_threads,
                                 .affinity = options.affinity,
                                 .drain_timeout = options.drain_timeout,
                                 .message_timeout = options.message_timeout};
}

std::vector<std::uint32_t> given_map(const DeviceOptions& options, std::uint32_t request_queues) {
    if (options.queue_of_cpu.empty()) return map_of(options.cpus_of_queue, request_queues);
    std::vector<std::uint32_t> queue_of_cpu = options.queue_of_cpu;
    for (std::uint32_t& queue : queue_of_cpu) queue = queue < request_queues ? queue : 0;
    return queue_of_cpu;
}

} // namespace viaduct::client
