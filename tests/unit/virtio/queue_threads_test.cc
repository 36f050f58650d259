// SPDX-License-Identifier: Apache-2.0
//
// A driver thread and a device thread over the same memory, each asleep whenever it may: a lost kick or
// interrupt ends in a time-out.  Run under the thread sanitizer, it also shows every hand-over without order.
#include "unit/virtio/queue_pair.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

namespace viaduct::virtio {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kRequests = 200'000;

// What an eventfd is between processes.
class Event {
public:
    void signal() {
        const std::lock_guard lock{mutex_};
        raised_ = true;
        condition_.notify_one();
    }
    // false: no signal came in time.
    bool wait() {
        std::unique_lock lock{mutex_};
        const bool came = condition_.wait_for(lock, 10s, [&] { return raised_; });
        raised_ = false;
        return came;
    }

private:
    std::mutex mutex_;
    std::condition_variable condition_;
    bool raised_ = false;
};

// Both sides of one run.  The fields belong to the thread in whose function they are used; the rest is
// shared.
struct Traffic {
    explicit Traffic(const DriverQueueOptions& options) : pair(options, 64 * 1024) {}

    QueuePair pair;
    Event kick;
    Event interrupt;
    std::atomic<bool> failed = false;
    std::uint32_t kicks = 0;
    std::uint32_t interrupts = 0;
};

// The byte a request carries must come back as its complement: data is handed over in order too.
constexpr std::uint32_t kSlots = 512;

void serve(Traffic& traffic) {
    DeviceQueue& queue = traffic.pair.device();
    Chain chain;
    std::uint32_t served = 0;
    while (served < kRequests && !traffic.failed) {
        queue.suppress_kicks();
        // Batches of changing length, so that events fall inside and at the ends of them.
        for (std::uint32_t count = 0; count <= served % 5; ++count) {
            const auto popped = queue.pop(chain);
            if (!popped) traffic.failed = true;
            if (!popped || !*popped) break;
            const auto request = *static_cast<const unsigned char*>(chain.readable[0].iov_base);
            *static_cast<unsigned char*>(chain.writable[0].iov_base) = static_cast<unsigned char>(~request);
            queue.push(chain.ticket, 1);
            ++served;
        }
        if (queue.publish()) {
            ++traffic.interrupts;
            traffic.interrupt.signal();
        }
        if (served == kRequests || queue.has_work()) continue;
        if (queue.enable_kicks()) continue;
        if (!traffic.kick.wait()) traffic.failed = true;
    }
    traffic.interrupt.signal();
}

// Adds what fits; true when something went out.
bool fill(Traffic& traffic, std::vector<std::uint32_t>& free_slots, std::uint32_t& added) {
    bool any = false;
    while (added < kRequests && !free_slots.empty()) {
        const std::uint32_t slot = free_slots.back();
        *traffic.pair.data_host(slot * 64) = static_cast<std::byte>(added);
        const GuestRange readable[] = {traffic.pair.data(slot * 64, 1)};
        const GuestRange writable[] = {traffic.pair.data(slot * 64 + 32, 1)};
        if (!traffic.pair.driver().add(readable, writable, reinterpret_cast<void*>(std::uintptr_t{slot})))
            break;
        free_slots.pop_back();
        ++added;
        any = true;
    }
    return any;
}

void drive(Traffic& traffic) {
    DriverQueue& queue = traffic.pair.driver();
    std::vector<std::uint32_t> free_slots(kSlots);
    for (std::uint32_t slot = 0; slot < kSlots; ++slot) free_slots[slot] = slot;
    std::uint32_t added = 0;
    std::uint32_t done = 0;
    while (done < kRequests && !traffic.failed) {
        if (fill(traffic, free_slots, added) && queue.should_kick()) {
            ++traffic.kicks;
            traffic.kick.signal();
        }
        queue.disable_interrupts();
        const std::uint32_t before = done;
        for (auto used = queue.poll();; used = queue.poll()) {
            if (!used) traffic.failed = true;
            if (!used || !*used) break;
            const auto slot = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>((*used)->token));
            const auto request = static_cast<unsigned char>(*traffic.pair.data_host(slot * 64));
            const auto reply = static_cast<unsigned char>(*traffic.pair.data_host(slot * 64 + 32));
            if (reply != static_cast<unsigned char>(~request)) traffic.failed = true;
            free_slots.push_back(slot);
            ++done;
        }
        if (done != before || done == kRequests) continue;
        const bool more = done % 2 == 0 ? queue.enable_interrupts()
                                        : queue.enable_interrupts_after(static_cast<std::uint16_t>(done % 9));
        if (more) continue;
        if (!traffic.interrupt.wait()) traffic.failed = true;
    }
    if (done != kRequests) traffic.failed = true;
    traffic.kick.signal();
}

class QueueThreads : public testing::TestWithParam<DriverQueueOptions> {};

TEST_P(QueueThreads, lose_no_request_and_no_notification) {
    Traffic traffic{GetParam()};
    std::thread device{[&] { serve(traffic); }};
    drive(traffic);
    device.join();
    EXPECT_FALSE(traffic.failed);
    EXPECT_EQ(traffic.pair.driver().in_flight(), 0U);
    RecordProperty("kicks", static_cast<int>(traffic.kicks));
    RecordProperty("interrupts", static_cast<int>(traffic.interrupts));
}

INSTANTIATE_TEST_SUITE_P(
    EveryFormat, QueueThreads,
    testing::Values(DriverQueueOptions{.size = 64}, DriverQueueOptions{.event_idx = true, .size = 64},
                    DriverQueueOptions{.event_idx = true, .indirect = true, .size = 4},
                    DriverQueueOptions{.packed = true, .size = 64},
                    DriverQueueOptions{.packed = true, .event_idx = true, .size = 64},
                    DriverQueueOptions{.packed = true, .event_idx = true, .indirect = true, .size = 7}),
    [](const auto& info) { return name_of(info.param); });

} // namespace
} // namespace viaduct::virtio
