// SPDX-License-Identifier: Apache-2.0
//
// A device without a socket: the device side of one queue over the same memory, which answers as a test says.
#pragma once

#include "base/segments.h"
#include "driver/request_queue.h"
#include "fuse/protocol.h"
#include "virtio/device_queue.h"

#include <atomic>
#include <memory>
#include <optional>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <utility>
#include <vector>

namespace viaduct::driver {

// What a dishonest device gets wrong.
struct Lie {
    std::int64_t length_off_by = 0;  // of out.len
    std::int64_t written_off_by = 0; // of the used element
    std::uint64_t unique_xor = 0;
};

class ScriptedDevice {
public:
    explicit ScriptedDevice(virtio::DriverQueueOptions options)
        : options_(options), arena_(DmaArena::make({.bytes = 8ULL << 20}).value()),
          queue_(RequestQueue::make().value()) {
        start();
    }
    ~ScriptedDevice() {
        stop_thread();
        queue_->end(Errno{ECONNABORTED}, true);
    }

    DmaArena& arena() { return *arena_; }
    RequestQueue& queue() { return *queue_; }
    virtio::DeviceQueue& device() { return *device_; }

    // Rings of both sides anew.
    void start() {
        const std::size_t bytes = virtio::DriverQueue::ring_bytes(options_);
        ring_memory_ = arena_->allocate(bytes, 4096).value();
        auto ring =
            virtio::DriverQueue::make(options_, ring_memory_.data(), arena_->address_of(ring_memory_.data()));
        std::vector<virtio::MemoryRegion> regions;
        for (const DmaRegion* region : arena_->regions()) {
            regions.push_back({.guest_address = region->guest_address,
                               .user_address = reinterpret_cast<std::uintptr_t>(region->host),
                               .bytes = region->bytes,
                               .host = region->host});
        }
        view_ = virtio::GuestMemory::make(std::move(regions)).value();
        const auto offsets = ring->addresses();
        const auto user = reinterpret_cast<std::uintptr_t>(ring_memory_.data());
        device_ = virtio::DeviceQueue::make(view_, {.packed = options_.packed,
                                                    .event_idx = options_.event_idx,
                                                    .indirect = options_.indirect,
                                                    .size = options_.size,
                                                    .descriptor_area = user + offsets.descriptor_area,
                                                    .driver_area = user + offsets.driver_area,
                                                    .device_area = user + offsets.device_area,
                                                    .base = options_.packed ? 0x8000'8000U : 0U})
                      .value();
        EXPECT_TRUE(queue_->start(std::move(ring)));
    }

    // The next chain, or nothing.
    std::optional<virtio::Chain> pop() {
        virtio::Chain chain;
        const auto popped = device_->pop(chain);
        EXPECT_TRUE(popped) << device_->reason();
        if (!popped || !*popped) return std::nullopt;
        return chain;
    }
    static fuse_in_header header_of(const virtio::Chain& chain) {
        fuse_in_header header{};
        SegmentReader{chain.readable}.read(header);
        return header;
    }
    // An honest answer unless told otherwise: a header and `body_bytes` of what follows it.
    void answer(const virtio::Chain& chain, std::uint32_t body_bytes = 0, const Lie& lie = {},
                int error = 0) {
        const auto bytes = static_cast<std::uint32_t>(sizeof(fuse_out_header)) + body_bytes;
        const fuse_out_header header{.len = static_cast<std::uint32_t>(bytes + lie.length_off_by),
                                     .error = error,
                                     .unique = header_of(chain).unique ^ lie.unique_xor};
        SegmentWriter{chain.writable}.write(&header, sizeof header);
        give_back(chain, static_cast<std::uint32_t>(bytes + lie.written_off_by));
    }
    void give_back(const virtio::Chain& chain, std::uint32_t written_bytes) {
        device_->push(chain.ticket, chain.writable_bytes == 0 ? 0 : written_bytes);
        if (device_->publish()) signal();
    }
    void signal() {
        const std::uint64_t one = 1;
        ASSERT_EQ(::write(queue_->call_fd().get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
    }

    // Serves in a thread: `serve(chain)` for each chain, woken by kicks.
    template <class Serve> void run(Serve serve) {
        thread_ = std::thread{[this, serve = std::move(serve)]() mutable {
            while (!stopping_.load(std::memory_order_acquire)) {
                device_->suppress_kicks();
                while (auto chain = pop()) serve(*chain);
                if (device_->enable_kicks()) continue;
                pollfd fds{.fd = queue_->kick_fd().get(), .events = POLLIN, .revents = 0};
                ::poll(&fds, 1, -1);
                std::uint64_t count;
                [[maybe_unused]] const auto got = ::read(fds.fd, &count, sizeof count);
            }
        }};
    }
    void stop_thread() {
        if (!thread_.joinable()) return;
        stopping_.store(true, std::memory_order_release);
        const std::uint64_t one = 1;
        EXPECT_EQ(::write(queue_->kick_fd().get(), &one, sizeof one), static_cast<ssize_t>(sizeof one));
        thread_.join();
        stopping_.store(false, std::memory_order_release);
    }

private:
    const virtio::DriverQueueOptions options_;
    std::unique_ptr<DmaArena> arena_;
    std::unique_ptr<RequestQueue> queue_;
    DmaBuffer ring_memory_;
    virtio::GuestMemory view_;
    std::optional<virtio::DeviceQueue> device_;
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

// A request with a header of its own and room for a reply, which notes how it ended.
class TestRequest final : public Request {
public:
    TestRequest(DmaArena& arena, std::uint64_t unique, std::size_t out_bytes = 64, int parts = 1)
        : memory_(arena.allocate(sizeof(fuse_in_header) + out_bytes).value()) {
        header() = {.len = sizeof(fuse_in_header), .opcode = FUSE_GETATTR, .unique = unique};
        std::vector<iovec> in;
        // The header in `parts` pieces of nearly the same size.
        std::size_t offset = 0;
        for (int part = 0; part < parts; ++part) {
            const std::size_t end =
                sizeof(fuse_in_header) * static_cast<std::size_t>(part + 1) / static_cast<std::size_t>(parts);
            in.push_back({.iov_base = memory_.data() + offset, .iov_len = end - offset});
            offset = end;
        }
        std::vector<iovec> out;
        if (out_bytes > 0)
            out.push_back({.iov_base = memory_.data() + sizeof(fuse_in_header), .iov_len = out_bytes});
        EXPECT_TRUE(prepare(arena, in, out));
    }

    fuse_in_header& header() { return *reinterpret_cast<fuse_in_header*>(memory_.data()); }
    bool ended() const { return ended_.load(std::memory_order_acquire); }
    const std::atomic<bool>& flag() const { return ended_; }
    Result<std::uint32_t> result() const { return result_; }
    int times() const { return times_; }
    std::vector<std::uint64_t>* order = nullptr; // uniques in the order of their end

private:
    void done(Result<std::uint32_t> reply_bytes) override {
        ++times_;
        result_ = reply_bytes;
        if (order != nullptr) order->push_back(unique());
        ended_.store(true, std::memory_order_release);
    }

    DmaBuffer memory_;
    Result<std::uint32_t> result_ = fail(EINPROGRESS);
    int times_ = 0;
    std::atomic<bool> ended_{false};
};

} // namespace viaduct::driver
