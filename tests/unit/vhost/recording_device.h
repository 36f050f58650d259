// SPDX-License-Identifier: Apache-2.0
//
// A device that writes down what it is asked, and fails on demand.
#pragma once

#include "rt/gate.h"
#include "vhost/device_operations.h"
#include "vhost/front_end.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace viaduct::vhost::test {

class RecordingDevice final : public DeviceOperations {
public:
    std::vector<std::string> calls;
    std::vector<std::byte> config_space;
    std::uint64_t offered = virtio::kFeatureVersion1 | virtio::kFeatureIndirectDesc |
                            virtio::kFeatureEventIdx | virtio::kFeatureRingPacked | virtio::kFeatureRingReset;
    std::uint64_t negotiated = 0;
    std::map<std::uint16_t, QueueSetup> running;
    std::uint32_t base_at_stop = 7;
    std::optional<Errno> refuse_start;
    std::optional<Errno> stop_error;
    bool dies_at_stop = false;
    std::optional<Errno> refuse_memory;
    std::shared_ptr<const MemoryTable> memory;
    std::uint16_t queues = 3;

    // What was asked since the last time.
    std::vector<std::string> take() { return std::exchange(calls, {}); }

    std::uint64_t features() const override { return offered; }
    std::uint16_t queue_count() const override { return queues; }
    std::span<const std::byte> config() const override { return config_space; }
    void set_features(std::uint64_t features) override {
        negotiated = features;
        calls.push_back("features");
    }
    rt::Task<Status> set_memory(std::shared_ptr<const MemoryTable> table, bool drain) override {
        calls.push_back("memory " + std::to_string(table->mappings().size()) + (drain ? " drain" : ""));
        if (refuse_memory) co_return fail(*refuse_memory);
        memory = std::move(table);
        co_return Status{};
    }
    rt::Task<Status> start_queue(std::uint16_t index, QueueSetup setup) override {
        calls.push_back("start " + std::to_string(index) + " base " + std::to_string(setup.layout.base) +
                        (setup.enabled ? " enabled" : ""));
        if (refuse_start) co_return fail(*refuse_start);
        running.insert_or_assign(index, std::move(setup));
        co_return Status{};
    }
    rt::Task<Status> stop_queue(std::uint16_t index, std::uint32_t& base) override {
        calls.push_back("stop " + std::to_string(index));
        running.erase(index);
        base = base_at_stop;
        died = died || dies_at_stop;
        if (stop_error) co_return fail(*stop_error);
        co_return Status{};
    }
    rt::Task<Status> enable_queue(std::uint16_t index, bool enabled) override {
        calls.push_back((enabled ? "enable " : "disable ") + std::to_string(index));
        running.at(index).enabled = enabled;
        co_return Status{};
    }
    rt::Task<Status> set_queue_call(std::uint16_t index, Fd call) override {
        calls.push_back("call " + std::to_string(index) + (call ? "" : " none"));
        running.at(index).call = std::move(call);
        co_return Status{};
    }
    rt::Task<Status> set_queue_error(std::uint16_t index, Fd error) override {
        calls.push_back("error " + std::to_string(index) + (error ? "" : " none"));
        running.at(index).error = std::move(error);
        co_return Status{};
    }
    rt::Task<void> reset() override {
        calls.emplace_back("reset");
        running.clear();
        memory.reset();
        co_return;
    }
    bool dead() const override { return died; }
    bool died = false;
};

inline rt::Task<void> keep(rt::Task<Result<std::vector<std::byte>>> task,
                           std::optional<Result<std::vector<std::byte>>>& result) {
    result = co_await std::move(task);
}

// Runs a task that has nothing to wait for.
inline Result<std::vector<std::byte>> run_at_once(rt::Task<Result<std::vector<std::byte>>> task) {
    rt::Gate gate;
    std::optional<Result<std::vector<std::byte>>> result;
    gate.spawn(keep(std::move(task), result));
    return std::move(result.value());
}

inline Fd event_fd() {
    return Fd{::eventfd(0, EFD_CLOEXEC)};
}

// A file in memory, filled with `fill`.
inline Fd memory_file(std::size_t bytes, char fill = 0) {
    Fd file{::memfd_create("guest", MFD_CLOEXEC)};
    const std::vector<char> content(bytes, fill);
    EXPECT_EQ(::write(file.get(), content.data(), bytes), static_cast<ssize_t>(bytes));
    return file;
}

inline std::size_t open_fds() {
    const auto entries = std::filesystem::directory_iterator{"/proc/self/fd"};
    return static_cast<std::size_t>(std::distance(begin(entries), end(entries)));
}

constexpr std::uint64_t kRegionBytes = 0x10000;
constexpr std::uint64_t kUserBase = 0x7f0000000000;

// Region `number`: guest address number * kRegionBytes.
inline RegionDescription region(std::uint64_t number) {
    return {.guest_address = number * kRegionBytes,
            .bytes = kRegionBytes,
            .user_address = kUserBase + number * kRegionBytes,
            .mmap_offset = 0};
}

// Where the ring of queue `index` (up to 64 entries) lies in region `number`.
inline RingAddresses ring_of(std::uint32_t index, std::uint64_t number = 0) {
    const std::uint64_t start = kUserBase + number * kRegionBytes + index * 0x2000ULL;
    return {.descriptor = start, .driver = start + 0x800, .device = start + 0x1000, .flags = 0, .log = 0};
}

} // namespace viaduct::vhost::test
