// SPDX-License-Identifier: Apache-2.0
//
// What a share keeps for each thread that calls it.
#pragma once

#include "backend/passthrough/mounts.h"
#include "base/sync.h"
#include "rt/slots.h"
#include "rt/ticks.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>

namespace viaduct::passthrough {

// Where calls ran.
enum class Place : std::uint8_t { worker, ring, helper };
inline constexpr std::size_t kPlaces = 3;

using rt::ticks;
// A call that took fewer ticks was not slow, whatever a tick is: 2 ms of the slowest counter (1 GHz).
inline constexpr std::uint64_t kSurelyQuickTicks = kSlowNs;

struct alignas(64) WorkerState {
    explicit WorkerState(std::uint32_t ring_operations_max)
        : local_slots(ring_operations_max), remote_slots(ring_operations_max) {}

    // Of ring operations that may block.  Remote mounts have their own, so that one that hangs uses up nobody
    // else's.
    rt::Slots& slots(bool remote) noexcept { return remote ? remote_slots : local_slots; }

    // That thread's alone.
    rt::Slots local_slots;
    rt::Slots remote_slots;
    std::uint64_t call_ended_ticks = 0;    // when the latest inline call ended
    std::uint64_t mounts_looked_ticks = 0; // when it was last asked whether mounts have changed
    std::uint32_t unknown_names = 0;       // looked at by name in vain, in a row
    // Written by that thread, read by any.
    std::array<std::array<sync::Counter, kPlaces>, kOpClasses> calls;

    void count(OpClass op, Place place) noexcept {
        calls[static_cast<std::size_t>(op)][static_cast<std::size_t>(place)].add();
    }
};

// One WorkerState per thread, made when the thread first comes.
class WorkerStates {
public:
    static constexpr std::uint32_t kThreadsMax = 1024;

    explicit WorkerStates(std::uint32_t ring_operations_max) : ring_operations_max_(ring_operations_max) {}
    ~WorkerStates();
    WorkerStates(const WorkerStates&) = delete;
    WorkerStates& operator=(const WorkerStates&) = delete;

    // The calling thread's.
    WorkerState& here() {
        std::atomic<WorkerState*>& state = states_[thread_number()];
        if (WorkerState* const known = state.load(std::memory_order_acquire)) [[likely]]
            return *known;
        return make(state);
    }
    // Sum over all threads.
    std::uint64_t calls(OpClass op, Place place) const noexcept;

private:
    // Small, and no other living thread's.
    static std::uint32_t thread_number();
    WorkerState& make(std::atomic<WorkerState*>& state);

    const std::uint32_t ring_operations_max_;
    // Each written once by its thread, read by any.
    std::array<std::atomic<WorkerState*>, kThreadsMax> states_{};
};

} // namespace viaduct::passthrough
