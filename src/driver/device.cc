// SPDX-License-Identifier: Apache-2.0
#include "driver/device.h"

#include "base/assert.h"
#include "base/log.h"
#include "rt/thread.h"
#include "topology/machine.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

namespace viaduct::driver {
namespace {

vhost::SharedRegion shared(const DmaRegion& region) {
    return {.description = {.guest_address = static_cast<std::uint64_t>(region.guest_address),
                            .bytes = region.bytes,
                            .user_address = reinterpret_cast<std::uintptr_t>(region.host),
                            .mmap_offset = 0},
            .fd = region.file.get()};
}

// Read once: CPUs that come and go change nothing.
const topology::Topology& this_machine() {
    static const topology::Topology machine = [] {
        auto found = topology::this_machine();
        if (found) return *std::move(found);
        log::warn("all CPUs use the first request queue: {}", found.error().message);
        return topology::Topology{};
    }();
    return machine;
}

} // namespace

Outcome<std::unique_ptr<Device>> Device::connect(const DeviceOptions& options) {
    TRY(auto front_end, vhost::FrontEnd::connect(options.socket, options.message_timeout));
    Fd watched{::fcntl(front_end.fd().get(), F_DUPFD_CLOEXEC, 0)};
    if (!watched) return failure("cannot copy a descriptor", Errno{errno});
    std::unique_ptr<Device> device{new Device{options, std::move(front_end), std::move(watched)}};
    TRY_STATUS(device->negotiate());
    TRY_STATUS(device->set_up());
    return device;
}

Outcome<void> Device::negotiate() {
    using namespace virtio;
    std::uint64_t wanted = kFeatureVersion1;
    if (options_.packed) wanted |= kFeatureRingPacked;
    if (options_.event_idx) wanted |= kFeatureEventIdx;
    if (options_.indirect) wanted |= kFeatureIndirectDesc;
    if (const Status negotiated = front_end_->negotiate(wanted); !negotiated)
        return failure("the device at " + options_.socket + " does not negotiate", negotiated.error());
    const std::uint64_t missing = wanted & ~front_end_->features();
    if (missing & kFeatureVersion1)
        return failure("the device at " + options_.socket + " is older than virtio 1.0");
    if (missing & kFeatureRingPacked) log::warn("the device has no packed queues; split ones are used");
    if (missing & kFeatureEventIdx) log::info("the device has no EVENT_IDX");
    if (missing & kFeatureIndirectDesc) log::info("the device has no indirect descriptors");
    ring_options_ = {.packed = (front_end_->features() & kFeatureRingPacked) != 0,
                     .event_idx = (front_end_->features() & kFeatureEventIdx) != 0,
                     .indirect = (front_end_->features() & kFeatureIndirectDesc) != 0,
                     .size = options_.queue_size};
    return {};
}

Outcome<void> Device::set_up() {
    std::uint64_t queue_count = 1ULL + std::max(options_.request_queues, 1U);
    if ((front_end_->protocol_features() & vhost::kProtocolMq) != 0) {
        const auto available = front_end_->get_queue_num();
        if (!available) return failure("the device does not tell its number of queues", available.error());
        if (*available < 2) return failure("the device has no request queue");
        if (*available < queue_count)
            log::info("the device has {} request queues; {} were asked for", *available - 1, queue_count - 1);
        queue_count = std::min(queue_count, *available);
    } else {
        queue_count = 2;
    }
    auto arena = DmaArena::make(options_.memory);
    if (!arena) return failure("cannot share memory with the device", arena.error());
    arena_ = *std::move(arena);
    for (std::uint64_t index = 0; index < queue_count; ++index) {
        auto queue = RequestQueue::make();
        if (!queue) return failure("cannot make queues", queue.error());
        queues_.push_back({.queue = *std::move(queue), .ring_memory = {}, .addresses = {}, .base = {}});
    }
    map_cpus();
    stop_watching_ = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!stop_watching_) return failure("cannot make an eventfd", Errno{errno});
    watcher_ = rt::start_thread("device watch", [this] { watch(); });

    if (const Status known = share_memory(arena_->regions()); !known)
        return failure("the device does not take our memory", known.error());
    if (!options_.start) return {};
    if (const Status started = start(); !started)
        return failure("the device does not start", started.error());
    return {};
}

Device::~Device() {
    disconnect();
}

void Device::disconnect() {
    if (watcher_.joinable()) {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(stop_watching_.get(), &one, sizeof one);
        watcher_.join();
    }
    die();
    const sync::Lock lock{control_};
    front_end_.reset();
    watched_.reset();
}

void Device::map_cpus() {
    queue_map_ = topology::QueueMap::make(
        options_.machine ? *options_.machine : this_machine(),
        {.queues = request_queue_count(), .policy = options_.policy, .masks = options_.queue_cpus});
    if (!options_.completion_threads) return;
    std::vector<RequestQueue*> queues;
    queues.reserve(queues_.size());
    for (const Queue& queue : queues_) queues.push_back(queue.queue.get());
    completion_threads_ = std::make_unique<CompletionThreads>(queues);
}

std::uint32_t Device::request_queue_of_cpu(int cpu) const noexcept {
    if (cpu < 0) return 0;
    return static_cast<std::uint32_t>(queue_map_->queue_of(static_cast<topology::CpuId>(cpu)) -
                                      queue_map_->first_request());
}

topology::CpuSet Device::completion_cpus(std::uint32_t request_queue) const {
    if (request_queue_count() < 2 || request_queue >= queue_map_->request_queues()) return {};
    return queue_map_->cpus_of(
        static_cast<topology::VirtqueueIndex>(queue_map_->first_request() + request_queue));
}

RequestQueue& Device::queue_of_current_cpu() noexcept {
    return request_queue(request_queue_of_cpu(::sched_getcpu()));
}

pid_t Device::peer_pid() const noexcept {
    ucred peer{};
    socklen_t bytes = sizeof peer;
    return ::getsockopt(watched_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
}

// A connection on which a message failed is of no more use; a refusal is only that.
Status Device::check(Status status) {
    if (!status && status.error() != Errno{EREMOTEIO}) die();
    return status;
}

Status Device::share_memory(const std::vector<const DmaRegion*>& regions) {
    if ((front_end_->protocol_features() & vhost::kProtocolConfigureMemSlots) != 0) {
        for (const DmaRegion* region : regions) TRY_STATUS(check(front_end_->add_region(shared(*region))));
        return {};
    }
    std::vector<vhost::SharedRegion> table;
    table.reserve(regions.size());
    for (const DmaRegion* region : regions) table.push_back(shared(*region));
    return check(front_end_->set_memory(table));
}

Result<const DmaRegion*> Device::add_memory(std::uint64_t bytes) {
    const sync::Lock lock{control_};
    if (!front_end_) return fail(ENOTCONN);
    TRY(const DmaRegion* const region, arena_->grow(bytes));
    if ((front_end_->protocol_features() & vhost::kProtocolConfigureMemSlots) != 0) {
        TRY_STATUS(check(front_end_->add_region(shared(*region))));
    } else {
        auto regions = arena_->regions();
        regions.push_back(region);
        TRY_STATUS(share_memory(regions));
    }
    arena_->admit(*region);
    return region;
}

Status Device::remove_memory(const DmaRegion& region) {
    const sync::Lock lock{control_};
    if (!front_end_) return fail(ENOTCONN);
    arena_->retire(region);
    if ((front_end_->protocol_features() & vhost::kProtocolConfigureMemSlots) != 0)
        return check(front_end_->remove_region(shared(region).description));
    return share_memory(arena_->regions());
}

Status Device::lay_out(Queue& queue) {
    const std::size_t bytes = virtio::DriverQueue::ring_bytes(ring_options_);
    if (queue.ring_memory.size() == 0) {
        TRY(queue.ring_memory, arena_->allocate(bytes, 4096));
    }
    std::byte* const memory = queue.ring_memory.data();
    auto ring = virtio::DriverQueue::make(ring_options_, memory, arena_->address_of(memory));
    queue.addresses = ring->addresses();
    // Split rings begin at index 0, packed ones at offset 0 with both wrap counters set.
    queue.base = ring_options_.packed ? 0x8000'8000U : 0U;
    return queue.queue->start(std::move(ring));
}

// In the order in which QEMU does it.
Status Device::announce(std::uint32_t index, const Queue& queue) {
    const auto user = reinterpret_cast<std::uintptr_t>(queue.ring_memory.data());
    TRY_STATUS(front_end_->set_vring_call(index, queue.queue->call_fd().get()));
    TRY_STATUS(front_end_->set_vring_error(index, queue.queue->error_fd().get()));
    TRY_STATUS(front_end_->set_vring_num(index, ring_options_.size));
    TRY_STATUS(front_end_->set_vring_base(index, *queue.base));
    TRY_STATUS(front_end_->set_vring_address(index, {.descriptor = user + queue.addresses.descriptor_area,
                                                     .driver = user + queue.addresses.driver_area,
                                                     .device = user + queue.addresses.device_area}));
    TRY_STATUS(front_end_->set_vring_kick(index, queue.queue->kick_fd().get()));
    if (front_end_->protocol_features() == 0) return {}; // without them a started ring is enabled
    return front_end_->set_vring_enable(index, true);
}

Status Device::start_queue(std::uint32_t index) {
    const sync::Lock lock{control_};
    if (!front_end_) return fail(ENOTCONN);
    if (index >= queues_.size()) return fail(EINVAL);
    Queue& queue = queues_[index];
    if (queue.started) return fail(EBUSY);
    // The ring is ready before the device hears of it; requests may come from here on.
    if (queue.base) {
        TRY_STATUS(check(announce(index, queue)));
        queue.queue->resume();
    } else {
        TRY_STATUS(lay_out(queue));
        TRY_STATUS(check(announce(index, queue)));
    }
    queue.started = true;
    if (completion_threads_ && options_.affinity && index > 0)
        completion_threads_->bind(index, completion_cpus(index - 1));
    return {};
}

Status Device::stop_queue(std::uint32_t index) {
    const sync::Lock lock{control_};
    if (!front_end_) return fail(ENOTCONN);
    if (index >= queues_.size()) return fail(EINVAL);
    Queue& queue = queues_[index];
    if (!queue.started) return fail(EINVAL);
    queue.queue->pause();
    if (completion_threads_) completion_threads_->clear(index);
    const auto base = front_end_->get_vring_base(index);
    if (!base) return check(fail(base.error()));
    queue.started = false;
    queue.base.reset();
    if (queue.queue->settle(Errno{ECONNABORTED})) queue.base = *base;
    return {};
}

Status Device::enable_queue(std::uint32_t index, bool enabled) {
    const sync::Lock lock{control_};
    if (!front_end_) return fail(ENOTCONN);
    return check(front_end_->set_vring_enable(index, enabled));
}

Status Device::start() {
    for (std::uint32_t index = 0; index < queues_.size(); ++index) TRY_STATUS(start_queue(index));
    return {};
}

Status Device::stop() {
    for (std::uint32_t index = 0; index < queues_.size(); ++index) {
        if (queues_[index].started) TRY_STATUS(stop_queue(index));
    }
    return {};
}

Status Device::reset() {
    TRY_STATUS(stop());
    {
        const sync::Lock lock{control_};
        if (!front_end_) return fail(ENOTCONN);
        for (Queue& queue : queues_) {
            queue.queue->end(Errno{ECONNABORTED}, false);
            queue.base.reset();
        }
        // As QEMU does at a reboot: features are set once more, memory stays.
        std::uint64_t features = front_end_->features();
        if (front_end_->protocol_features() != 0) features |= vhost::kFeatureProtocolFeatures;
        if ((front_end_->protocol_features() & vhost::kProtocolResetDevice) != 0)
            TRY_STATUS(check(front_end_->reset_device()));
        TRY_STATUS(check(front_end_->set_features(features)));
    }
    return start();
}

Status Device::drain() {
    return drain_until(after(options_.drain_timeout));
}

Status Device::drain_until(Deadline deadline) {
    for (const Queue& queue : queues_) TRY_STATUS(queue.queue->drain(deadline));
    return {};
}

Status Device::remove() {
    for (const Queue& queue : queues_) queue.queue->close(Errno{ENOTCONN});
    const Status drained = drain_until(after(options_.drain_timeout));
    const Status stopped = drained ? stop() : drained;
    disconnect();
    return stopped;
}

// Its own thread.
void Device::watch() {
    std::vector<pollfd> fds;
    fds.push_back({.fd = stop_watching_.get(), .events = POLLIN, .revents = 0});
    // Answers are the front end's to read; here only the end of the connection is looked for.
    fds.push_back({.fd = watched_.get(), .events = POLLRDHUP, .revents = 0});
    for (const Queue& queue : queues_)
        fds.push_back({.fd = queue.queue->error_fd().get(), .events = POLLIN, .revents = 0});
    for (;;) {
        if (::poll(fds.data(), fds.size(), -1) < 0) continue; // EINTR
        if (fds[0].revents != 0) return;
        if (fds[1].revents != 0) return die();
        for (std::size_t index = 2; index < fds.size(); ++index) {
            if (fds[index].revents == 0) continue;
            std::uint64_t count = 0;
            [[maybe_unused]] const auto got = ::read(fds[index].fd, &count, sizeof count);
            log::warn("the device has given up queue {}", index - 2);
            queues_[index - 2].queue->end(Errno{ECONNABORTED}, false);
        }
    }
}

void Device::die() {
    alive_.store(false, std::memory_order_release);
    for (Queue& queue : queues_) queue.queue->end(Errno{ECONNABORTED}, true);
}

} // namespace viaduct::driver
