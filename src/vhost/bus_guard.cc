// SPDX-License-Identifier: Apache-2.0
#include "vhost/bus_guard.h"

#include "base/assert.h"
#include "vhost/memory_table.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <sys/mman.h>
#include <unistd.h>

namespace viaduct::vhost {
namespace {

// Written by who maps and unmaps, read by the handler on any thread.  `end` is stored last and cleared first:
// a range is in force while it is not 0.
struct Range {
    std::atomic<bool> taken{false};
    std::atomic<std::uintptr_t> start{0};
    std::atomic<std::uintptr_t> end{0};
    std::atomic<std::uintptr_t> page_bytes{0};
    std::atomic<bool> lost{false};
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);
static_assert(std::atomic<bool>::is_always_lock_free);

std::array<Range, BusGuard::kRangesMax> ranges;
// Entries below this were in use at some time: keeps the handler's and guard()'s search short.
std::atomic<std::size_t> ranges_used{0};
std::atomic<int> lost_event_fd{-1};
std::atomic<bool> installed{false};
struct sigaction action_before; // written once, before the handler stands

Range* range_of(std::uintptr_t address) noexcept {
    const std::size_t used = ranges_used.load(std::memory_order_acquire);
    for (std::size_t index = 0; index < used; ++index) {
        Range& range = ranges[index];
        if (address >= range.end.load(std::memory_order_acquire)) continue;
        if (address >= range.start.load(std::memory_order_relaxed)) return &range;
    }
    return nullptr;
}

bool replace_page(const Range& range, std::uintptr_t address) noexcept {
    const std::uintptr_t bytes = range.page_bytes.load(std::memory_order_relaxed);
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the fault address is a number
    void* const page = reinterpret_cast<void*>(address & ~(bytes - 1));
    return ::mmap(page, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
           page;
}

// Async-signal-safe: atomics, mmap, write, sigaction.
void on_bus_error(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const int errno_before = errno;
    const auto address = reinterpret_cast<std::uintptr_t>(info->si_addr);
    // si_code above 0: a fault; a signal that was sent has no address to look at.
    Range* const range = info->si_code > 0 ? range_of(address) : nullptr;
    if (range != nullptr && replace_page(*range, address)) {
        // Released to who sees the flag; the event is only a reason to look.
        const bool first = !range->lost.exchange(true, std::memory_order_acq_rel);
        const int event_fd = lost_event_fd.load(std::memory_order_relaxed);
        if (first && event_fd >= 0) {
            const std::uint64_t one = 1;
            [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof one);
        }
        errno = errno_before;
        return;
    }
    // Not ours: a fault happens again on return, now under the handler that was there before; a signal that
    // was sent is sent again.
    ::sigaction(SIGBUS, &action_before, nullptr);
    if (info->si_code <= 0) ::raise(SIGBUS);
    errno = errno_before;
}

} // namespace

Result<std::atomic<bool>*> BusGuard::guard(void* start, std::size_t bytes, std::size_t page_bytes) {
    ASSERT(start != nullptr);
    ASSERT(bytes > 0);
    for (std::size_t index = 0; index < ranges.size(); ++index) {
        Range& range = ranges[index];
        bool expected = false;
        if (!range.taken.compare_exchange_strong(expected, true, std::memory_order_acq_rel)) continue;
        const auto address = reinterpret_cast<std::uintptr_t>(start);
        range.lost.store(false, std::memory_order_relaxed);
        range.start.store(address, std::memory_order_relaxed);
        range.page_bytes.store(page_bytes, std::memory_order_relaxed);
        range.end.store(address + bytes, std::memory_order_release);
        std::size_t used = ranges_used.load(std::memory_order_relaxed);
        while (used < index + 1 &&
               !ranges_used.compare_exchange_weak(used, index + 1, std::memory_order_acq_rel)) {
        }
        return &range.lost;
    }
    return fail(ENOSPC);
}

void BusGuard::release(std::atomic<bool>* lost) noexcept {
    for (Range& range : ranges) {
        if (&range.lost != lost) continue;
        range.end.store(0, std::memory_order_release);
        range.taken.store(false, std::memory_order_release);
        return;
    }
    ASSERT(false);
}

void install_bus_guard(int event_fd) {
    lost_event_fd.store(event_fd, std::memory_order_relaxed);
    if (installed.exchange(true, std::memory_order_acq_rel)) return;
    // Taken before the handler stands, so that the handler never sees it half written.
    ::sigaction(SIGBUS, nullptr, &action_before);
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, nullptr);
}

} // namespace viaduct::vhost
