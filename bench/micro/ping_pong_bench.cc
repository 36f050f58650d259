// SPDX-License-Identifier: Apache-2.0
//
// bench_ping_pong split|packed MILLISECONDS DRIVER-CPU DEVICE-CPU: one request goes to and fro between two
// threads over a virtqueue, both ends polling, nothing behind it.  What a device can reach at most with one
// request outstanding.  One JSON line.
//
// The ring is as `viaduct bench` asks for it: 128 entries, event index, indirect descriptors, one readable
// part of 40 bytes and a writable one of 16.
#include "base/assert.h"
#include "virtio/device_queue.h"
#include "virtio/driver_queue.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <sched.h>
#include <string_view>
#include <thread>

namespace viaduct::virtio {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kPageBytes = 4096;
constexpr GuestAddress kStart{0x100000};
constexpr std::uint32_t kReplyBytes = 16;
// Between two looks at the clock.
constexpr int kTripsPerLook = 256;

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

bool pin_to(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set);
    return ::sched_setaffinity(0, sizeof set, &set) == 0;
}

struct Table {
    explicit Table(bool packed) {
        const DriverQueueOptions options{.packed = packed, .event_idx = true, .indirect = true, .size = 128};
        const std::size_t ring_bytes =
            (DriverQueue::ring_bytes(options) + kPageBytes - 1) / kPageBytes * kPageBytes;
        const std::size_t bytes = ring_bytes + kPageBytes;
        storage.reset(static_cast<std::byte*>(std::aligned_alloc(kPageBytes, bytes)));
        driver = DriverQueue::make(options, storage.get(), kStart);
        const auto start = static_cast<std::uint64_t>(kStart);
        memory =
            GuestMemory::make(
                {{.guest_address = kStart, .user_address = start, .bytes = bytes, .host = storage.get()}})
                .value();
        const DriverQueue::Addresses offsets = driver->addresses();
        device = std::make_unique<DeviceQueue>(
            DeviceQueue::make(memory, {.packed = packed,
                                       .event_idx = true,
                                       .indirect = true,
                                       .size = options.size,
                                       .descriptor_area = start + offsets.descriptor_area,
                                       .driver_area = start + offsets.driver_area,
                                       .device_area = start + offsets.device_area,
                                       .base = packed ? 0x8000'8000U : 0U})
                .value());
        readable = {.address = GuestAddress{start + ring_bytes}, .bytes = 40};
        writable = {.address = GuestAddress{start + ring_bytes + 1024}, .bytes = kReplyBytes};
    }

    std::unique_ptr<std::byte, Free> storage;
    GuestMemory memory;
    std::unique_ptr<DriverQueue> driver;
    std::unique_ptr<DeviceQueue> device;
    GuestRange readable;
    GuestRange writable;
};

void answer(DeviceQueue& device, const std::atomic<bool>& over) {
    Chain chain;
    while (!over.load(std::memory_order_relaxed)) {
        if (!device.pop(chain).value()) {
            relax();
            continue;
        }
        device.push(chain.ticket, kReplyBytes);
        device.publish();
    }
}

void one_trip(Table& table) {
    ASSERT(table.driver->add({&table.readable, 1}, {&table.writable, 1}, &table));
    while (!table.driver->poll().value()) relax();
}

int run(bool packed, std::chrono::milliseconds time, int driver_cpu, int device_cpu) {
    Table table{packed};
    std::atomic<bool> over{false};
    std::thread device{[&] {
        if (!pin_to(device_cpu)) std::abort();
        answer(*table.device, over);
    }};
    if (!pin_to(driver_cpu)) std::abort();
    table.driver->disable_interrupts();
    for (int trip = 0; trip < kTripsPerLook; ++trip) one_trip(table); // the other thread has begun
    std::uint64_t trips = 0;
    const auto start = Clock::now();
    auto now = start;
    while (now - start < time) {
        for (int trip = 0; trip < kTripsPerLook; ++trip) one_trip(table);
        trips += kTripsPerLook;
        now = Clock::now();
    }
    over.store(true, std::memory_order_relaxed);
    device.join();
    const double seconds = std::chrono::duration<double>(now - start).count();
    std::printf("{\"name\":\"ping_pong\",\"ring\":\"%s\",\"trips\":%llu,\"seconds\":%.6f,\"trips_per_"
                "second\":%.0f}\n",
                packed ? "packed" : "split", static_cast<unsigned long long>(trips), seconds,
                static_cast<double>(trips) / seconds);
    return 0;
}

int number_in(std::string_view text) {
    int number = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    return end == text.data() + text.size() ? number : -1;
}

} // namespace
} // namespace viaduct::virtio

int main(int argc, char** argv) {
    using namespace viaduct::virtio;
    const std::string_view ring = argc == 5 ? argv[1] : "";
    const int numbers[] = {argc == 5 ? number_in(argv[2]) : -1, argc == 5 ? number_in(argv[3]) : -1,
                           argc == 5 ? number_in(argv[4]) : -1};
    if ((ring != "split" && ring != "packed") || numbers[0] < 1 || numbers[1] < 0 || numbers[2] < 0) {
        std::fputs("usage: bench_ping_pong split|packed MILLISECONDS DRIVER-CPU DEVICE-CPU\n", stderr);
        return 2;
    }
    return run(ring == "packed", std::chrono::milliseconds{numbers[0]}, numbers[1], numbers[2]);
}
