// SPDX-License-Identifier: Apache-2.0
#include <viaduct/device.h>

#include "base/log.h"
#include "client/connect.h"
#include "client/device_state.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <sched.h>
#include <utility>

namespace viaduct::client {

void set_log_level(LogLevel level) noexcept {
    constexpr log::Level levels[] = {log::Level::debug, log::Level::info, log::Level::warn, log::Level::error,
                                     log::Level::off};
    log::set_level(levels[std::min<std::size_t>(static_cast<std::size_t>(level), std::size(levels) - 1)]);
}

std::uint32_t DeviceState::queue_of_current_cpu() const noexcept {
    const int cpu = ::sched_getcpu();
    return cpu < 0 ? 0 : queue_of(static_cast<std::uint32_t>(cpu));
}

std::uint32_t DeviceState::queue_of(std::uint32_t cpu) const noexcept {
    if (queue_of_cpu.empty()) return device->request_queue_of_cpu(static_cast<int>(cpu));
    return cpu < queue_of_cpu.size() ? queue_of_cpu[cpu] : 0;
}

driver::RequestQueue* DeviceState::queue(std::uint32_t index) const noexcept {
    if (index == Device::kHiprio) return &device->hiprio();
    return index < device->request_queue_count() ? &device->request_queue(index) : nullptr;
}

driver::FuseClient DeviceState::fuse_client(const Caller& caller) const {
    return driver::FuseClient{*device,
                              {.queue = queue_of_current_cpu(),
                               .uid = caller.uid,
                               .gid = caller.gid,
                               .pid = caller.pid,
                               .timeout = call_timeout}};
}

std::expected<Device, Failure> Device::connect(const DeviceOptions& options) {
    const auto checked = driver_options(options);
    if (!checked) return std::unexpected{Failure{.message = checked.error().message}};
    auto connected = driver::Device::connect(*checked);
    if (!connected) return std::unexpected{Failure{.message = std::move(connected).error().message}};
    auto state = std::make_shared<DeviceState>();
    state->device = *std::move(connected);
    state->queue_of_cpu = given_map(options, state->device->request_queue_count());
    state->call_timeout = options.call_timeout;
    return Device{std::move(state)};
}

Device::Device(std::shared_ptr<DeviceState> state) noexcept : state_(std::move(state)) {}
Device::Device(Device&& other) noexcept = default;

Device& Device::operator=(Device&& other) noexcept {
    if (this == &other) return *this;
    disconnect();
    state_ = std::move(other.state_);
    return *this;
}

Device::~Device() {
    disconnect();
}

void Device::disconnect() {
    if (state_) state_->device->disconnect();
}

Status Device::remove() {
    return translated(state_->device->remove());
}

std::uint32_t Device::request_queue_count() const noexcept {
    return state_->device->request_queue_count();
}

Ring Device::ring() const noexcept {
    const virtio::DriverQueueOptions& options = state_->device->ring_options();
    return {.packed = options.packed,
            .event_idx = options.event_idx,
            .indirect = options.indirect,
            .queue_size = options.size};
}

std::uint32_t Device::queue_of_cpu(std::uint32_t cpu) const noexcept {
    return state_->queue_of(cpu);
}

std::uint32_t Device::queue_of_current_cpu() const noexcept {
    return state_->queue_of_current_cpu();
}

bool Device::alive() const noexcept {
    return state_->device->alive();
}

int Device::server_pid() const noexcept {
    return state_->device->peer_pid();
}

// The state outlives the memory.
struct Buffer::Memory {
    std::shared_ptr<DeviceState> state;
    driver::DmaBuffer buffer;
};

Buffer::Buffer() noexcept = default;
Buffer::~Buffer() = default;

Buffer::Buffer(Buffer&& other) noexcept
    : memory_(std::move(other.memory_)), bytes_(std::exchange(other.bytes_, {})) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    bytes_ = std::exchange(other.bytes_, {});
    return *this;
}

Result<Buffer> Device::allocate(std::size_t bytes, std::size_t alignment) {
    if (!std::has_single_bit(alignment) || alignment > 4096) return refuse(EINVAL);
    auto allocated = state_->device->memory().allocate(bytes, alignment);
    if (!allocated) return std::unexpected{error_of(allocated.error())};
    Buffer buffer;
    buffer.bytes_ = allocated->bytes();
    buffer.memory_ = std::make_unique<Buffer::Memory>(state_, *std::move(allocated));
    return buffer;
}

Status Device::add_memory(std::uint64_t bytes) {
    const auto added = state_->device->add_memory(bytes);
    if (!added) return std::unexpected{error_of(added.error())};
    return {};
}

QueueCounters Device::counters(std::uint32_t queue) const {
    driver::RequestQueue* const found = state_->queue(queue);
    if (found == nullptr) return {};
    found->count_interrupts();
    const driver::RequestQueue::Stats& stats = found->stats();
    return {.submitted = stats.submitted.get(),
            .ended = stats.ended.get(),
            .parked = stats.parked.get(),
            .kicks = stats.kicks.get(),
            .interrupts = stats.interrupts.get(),
            .lies = stats.lies.get(),
            .in_flight = found->in_flight()};
}

Result<SessionInfo> Device::begin_session() {
    driver::FuseClient client = state_->fuse_client();
    const auto reply = client.init();
    if (!reply) return std::unexpected{error_of(reply.error())};
    if (reply->major != fuse::kMajor) return refuse(EPROTO);
    const bool has_pages_max = (reply->flags & FUSE_MAX_PAGES) != 0 && reply->max_pages != 0;
    const std::uint32_t read_bytes_max =
        has_pages_max ? std::min(reply->max_pages * 4096U, driver::FuseClient::kBytesMax)
                      : DeviceState::kReadBytesMaxOfOldServers;
    state_->read_bytes_max.store(read_bytes_max, std::memory_order_relaxed);
    return SessionInfo{.minor = reply->minor,
                       .flags = reply->flags | std::uint64_t{reply->flags2} << 32,
                       .write_bytes_max = reply->max_write,
                       .read_bytes_max = read_bytes_max};
}

Status Device::end_session() {
    return translated(state_->fuse_client().destroy());
}

} // namespace viaduct::client
