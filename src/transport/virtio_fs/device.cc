// SPDX-License-Identifier: Apache-2.0
#include "transport/virtio_fs/device.h"

#include "base/log.h"

#include <algorithm>
#include <cstring>
#include <endian.h>

namespace viaduct::transport {

Device::Device(DeviceOptions options, Placement placement, DeviceSink& sink)
    : options_(std::move(options)), placement_(std::move(placement)), sink_(sink), ports_(queue_count()) {
    std::memcpy(config_.data(), options_.tag.data(), std::min(options_.tag.size(), kTagBytes));
    const std::uint32_t count = htole32(options_.request_queues_max);
    std::memcpy(config_.data() + kTagBytes, &count, sizeof count);
}

Device::~Device() = default;

std::uint64_t Device::features() const {
    using namespace virtio;
    return kFeatureVersion1 | kFeatureIndirectDesc | kFeatureEventIdx | kFeatureRingReset |
           (options_.packed ? kFeatureRingPacked : 0);
}

std::uint16_t Device::queue_count() const {
    return static_cast<std::uint16_t>(options_.request_queues_max + 1);
}

std::span<const std::byte> Device::config() const {
    return options_.tag.empty() ? std::span<const std::byte>{} : std::span<const std::byte>{config_};
}

Status Device::declare_dead(const char* why) {
    // Late copies by the kernel or by helpers now land in anonymous memory of ours.
    table_->detach();
    if (dead_) return fail(ETIMEDOUT);
    dead_ = true;
    log::error("device is dead: {}; its memory has been taken away from the requests that remain", why);
    return fail(ETIMEDOUT);
}

rt::Task<bool> Device::drain_port(QueuePort& port, bool old_memory_only) {
    co_return co_await port.worker().call(old_memory_only ? port.drain_old_memory(options_.drain_timeout)
                                                          : port.drain(options_.drain_timeout));
}

rt::Task<Status> Device::set_memory(std::shared_ptr<const vhost::MemoryTable> table, bool drain) {
    if (dead_) co_return fail(EIO);
    const auto old_table = std::exchange(table_, table);
    Status status;
    for (const auto& port : ports_) {
        if (!port) continue;
        auto change = [&port, &table] { return port->set_memory(table); };
        const Status changed = co_await port->worker().call(change);
        if (!changed) status = changed;
    }
    if (!drain) co_return status;
    for (const auto& port : ports_) {
        if (!port) continue;
        const bool drained = co_await drain_port(*port, true);
        if (drained) continue;
        old_table->detach();
        co_return declare_dead("requests on memory that was removed did not end in time");
    }
    co_return status;
}

rt::Task<Status> Device::start_queue(std::uint16_t index, vhost::QueueSetup setup) {
    if (dead_) co_return fail(EIO);
    ASSERT(index < ports_.size());
    auto& port = ports_[index];
    if (!port) port = std::make_unique<QueuePort>(index, placement_(index), sink_);
    auto start = [this, &port, &setup] { return port->start(std::move(setup), table_); };
    const Status started = co_await port->worker().call(start);
    if (!started)
        log::error("queue {} cannot start: its ring is not one, or lies outside guest memory", index);
    co_return started;
}

rt::Task<void> Device::drain_into(QueuePort& port, char& drained) {
    const bool ended = co_await drain_port(port, false);
    drained = ended ? 1 : 0;
}

rt::Task<void> Device::stop_port(QueuePort& port, bool& drained) {
    co_await port.worker().enter();
    port.refuse_new();
    sink_.end_endless_waits();
    drained = co_await port.drain(options_.drain_timeout);
}

rt::Task<Status> Device::stop_queue(std::uint16_t index, std::uint32_t& base) {
    auto& port = ports_[index];
    if (!port) co_return fail(EINVAL);
    bool drained = false;
    co_await port->worker().call(stop_port(*port, drained));
    Status status;
    if (!drained) status = declare_dead("requests did not end in time when the queue was stopped");
    auto finish = [&port, &base] {
        base = port->base();
        port->finish();
    };
    co_await port->worker().call(finish);
    co_return status;
}

template <class Change> rt::Task<Status> Device::on_owner(std::uint16_t index, Change change) {
    auto& port = ports_[index];
    if (!port) co_return fail(EINVAL);
    auto apply = [&port, &change] { change(*port); };
    co_await port->worker().call(apply);
    co_return Status{};
}

rt::Task<Status> Device::enable_queue(std::uint16_t index, bool enabled) {
    return on_owner(index, [enabled](QueuePort& port) { port.set_enabled(enabled); });
}

rt::Task<Status> Device::set_queue_call(std::uint16_t index, Fd call) {
    return on_owner(index,
                    [call = std::move(call)](QueuePort& port) mutable { port.set_call(std::move(call)); });
}

rt::Task<Status> Device::set_queue_error(std::uint16_t index, Fd error) {
    return on_owner(
        index, [error = std::move(error)](QueuePort& port) mutable { port.set_error(std::move(error)); });
}

rt::Task<void> Device::reset() {
    // All queues stop taking chains first, so that one drain time-out bounds them all.
    for (const auto& port : ports_) {
        if (!port) continue;
        auto refuse = [&port] { port->refuse_new(); };
        co_await port->worker().call(refuse);
    }
    sink_.end_endless_waits();
    rt::Gate draining;
    std::vector<char> drained(ports_.size(), 1);
    for (std::size_t index = 0; index < ports_.size(); ++index) {
        if (!ports_[index]) continue;
        draining.spawn(drain_into(*ports_[index], drained[index]));
    }
    co_await draining.empty();
    if (std::ranges::count(drained, 0) > 0)
        (void)declare_dead("requests did not end in time when the device was reset");
    for (const auto& port : ports_) {
        if (!port) continue;
        auto finish = [&port] { port->finish(); };
        co_await port->worker().call(finish);
    }
    if (!dead_) co_await sink_.end_client();
    table_ = std::make_shared<vhost::MemoryTable>();
}

rt::Task<void> Device::outlived() {
    for (const auto& port : ports_) {
        if (!port) continue;
        while (true) {
            const bool ended = co_await port->worker().call(port->drain(std::chrono::hours{1}));
            if (ended) break;
        }
    }
}

std::vector<Device::QueueReport> Device::queues() const {
    std::vector<QueueReport> reports;
    for (const auto& port : ports_)
        if (port) reports.push_back({port->index(), &port->stats()});
    return reports;
}

} // namespace viaduct::transport
