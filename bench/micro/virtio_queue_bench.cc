// SPDX-License-Identifier: Apache-2.0
//
// What the ring alone costs: a device that takes requests and gives them back untouched.
//
// 32 requests outstanding, two descriptors each (80 readable bytes, 104 writable): a GETATTR.  "device" times
// the device end alone, batch by batch, which charges it two clock reads for 32 requests.  "both" is one
// thread that plays both ends, by CPU time.
#include "virtio/device_queue.h"
#include "virtio/driver_queue.h"

#include <benchmark/benchmark.h>
#include <chrono>
#include <cstdlib>
#include <memory>

namespace viaduct::virtio {
namespace {

constexpr std::uint32_t kOutstanding = 32;
using Clock = std::chrono::steady_clock;

struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
};

struct Rings {
    Rings(bool packed, bool event_idx, bool indirect) {
        const DriverQueueOptions options{
            .packed = packed, .event_idx = event_idx, .indirect = indirect, .size = 128};
        const std::size_t ring_bytes = (DriverQueue::ring_bytes(options) + 4095) / 4096 * 4096;
        const std::size_t bytes = ring_bytes + kOutstanding * 4096;
        storage.reset(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)));
        driver = DriverQueue::make(options, storage.get(), GuestAddress{0x100000});
        // As in a guest with more than 3 GiB: two regions, the requests in the second.
        low.reset(static_cast<std::byte*>(std::aligned_alloc(4096, 4096)));
        memory =
            GuestMemory::make(
                {{.guest_address = GuestAddress{0}, .user_address = 0x1000, .bytes = 4096, .host = low.get()},
                 {.guest_address = GuestAddress{0x100000},
                  .user_address = 0x200000,
                  .bytes = bytes,
                  .host = storage.get()}})
                .value();
        const DriverQueue::Addresses offsets = driver->addresses();
        device = std::make_unique<DeviceQueue>(
            DeviceQueue::make(memory, {.packed = packed,
                                       .event_idx = event_idx,
                                       .indirect = indirect,
                                       .size = options.size,
                                       .descriptor_area = 0x200000 + offsets.descriptor_area,
                                       .driver_area = 0x200000 + offsets.driver_area,
                                       .device_area = 0x200000 + offsets.device_area,
                                       .base = packed ? 0x8000'8000U : 0U})
                .value());
        for (std::uint32_t slot = 0; slot < kOutstanding; ++slot) {
            const std::uint64_t start = 0x100000 + ring_bytes + slot * 4096ULL;
            readable[slot] = {.address = GuestAddress{start}, .bytes = 80};
            writable[slot] = {.address = GuestAddress{start + 1024}, .bytes = 104};
        }
    }

    void offer() {
        for (std::uint32_t slot = 0; slot < kOutstanding; ++slot) {
            if (!driver->add({&readable[slot], 1}, {&writable[slot], 1}, this)) std::abort();
        }
        benchmark::DoNotOptimize(driver->should_kick());
    }
    void serve() {
        while (device->pop(chain).value()) device->push(chain.ticket, 104);
        benchmark::DoNotOptimize(device->publish());
        benchmark::DoNotOptimize(device->enable_kicks());
    }
    void collect() {
        while (driver->poll().value()) {
        }
        benchmark::DoNotOptimize(driver->enable_interrupts());
    }

    std::unique_ptr<std::byte, Free> storage;
    std::unique_ptr<std::byte, Free> low;
    GuestMemory memory;
    std::unique_ptr<DriverQueue> driver;
    std::unique_ptr<DeviceQueue> device;
    GuestRange readable[kOutstanding];
    GuestRange writable[kOutstanding];
    Chain chain;
};

void report(benchmark::State& state) {
    state.SetItemsProcessed(state.iterations() * kOutstanding);
    state.counters["s_per_request"] =
        benchmark::Counter(static_cast<double>(state.iterations()) * kOutstanding,
                           benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void device(benchmark::State& state, bool packed, bool event_idx, bool indirect) {
    Rings rings{packed, event_idx, indirect};
    for ([[maybe_unused]] auto round : state) {
        rings.offer();
        const auto start = Clock::now();
        rings.serve();
        const std::chrono::duration<double> spent = Clock::now() - start;
        rings.collect();
        state.SetIterationTime(spent.count());
    }
    report(state);
}

void both(benchmark::State& state, bool packed, bool event_idx, bool indirect) {
    Rings rings{packed, event_idx, indirect};
    for ([[maybe_unused]] auto round : state) {
        rings.offer();
        rings.serve();
        rings.collect();
    }
    report(state);
}

BENCHMARK_CAPTURE(device, split, false, true, false)->UseManualTime();
BENCHMARK_CAPTURE(device, split_indirect, false, true, true)->UseManualTime();
BENCHMARK_CAPTURE(device, packed, true, true, false)->UseManualTime();
BENCHMARK_CAPTURE(device, packed_indirect, true, true, true)->UseManualTime();
BENCHMARK_CAPTURE(both, split, false, true, false);
BENCHMARK_CAPTURE(both, packed, true, true, false);

} // namespace
} // namespace viaduct::virtio
