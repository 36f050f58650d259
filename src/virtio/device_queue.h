// SPDX-License-Identifier: Apache-2.0
//
// A virtqueue, device side: split (virtio 1.2, section 2.7) or packed (2.8).
//
// One worker owns a queue: no locks, no I/O.  Every value that comes from guest memory is read once into a
// local and checked there.  A ring that breaks the rules makes pop() fail with EPROTO; the queue is then
// broken and stays so until it is made anew.
#pragma once

#include "base/result.h"
#include "virtio/guest_memory.h"
#include "virtio/packed_queue.h"
#include "virtio/queue_layout.h"
#include "virtio/split_queue.h"

#include <variant>

namespace viaduct::virtio {

class DeviceQueue {
public:
    // EINVAL: a size the format does not allow (split: power of two up to 32768; packed: 1 to 32768), a part
    // of the ring that is misaligned or lies outside `memory`.  `memory` outlives the queue or its
    // set_memory().
    static Result<DeviceQueue> make(const GuestMemory& memory, const QueueLayout& layout);

    // Fills `chain` with the next offered chain.  false: nothing more is offered.
    // EPROTO: the ring is malformed and the queue broken; reason() says how.
    Result<bool> pop(Chain& chain) {
        return std::visit([&](auto& queue) { return queue.pop(chain); }, queue_);
    }
    // Work is going to be looked for soon: what pop() and publish() touch first may come into the cache.
    void approach() const {
        std::visit([](const auto& queue) { queue.approach(); }, queue_);
    }
    // There is work: so may what the next chain consists of, if it is where the last one was.
    void expect() const {
        std::visit([](const auto& queue) { queue.expect(); }, queue_);
    }
    // Stages a used element; the guest sees it after publish().  Any order of tickets.
    void push(ChainTicket ticket, std::uint32_t written_bytes) {
        std::visit([&](auto& queue) { queue.push(ticket, written_bytes); }, queue_);
    }
    // Makes the staged elements visible.  true: the guest wants an interrupt for them (2.7.7, 2.8.10), and
    // for the first elements after make() always.
    bool publish() {
        return std::visit([](auto& queue) { return queue.publish(); }, queue_);
    }
    // true when something is offered, or the queue has just turned out broken, as pop() will tell; at most
    // one load of guest memory.
    bool has_work() {
        return std::visit([](auto& queue) { return queue.has_work(); }, queue_);
    }
    // Tells the guest not to kick (2.7.10, 2.8.10).
    void suppress_kicks() {
        std::visit([](auto& queue) { queue.suppress_kicks(); }, queue_);
    }
    // Asks for kicks again.  true: something was offered meanwhile, for which no kick may come.
    bool enable_kicks() {
        return std::visit([](auto& queue) { return queue.enable_kicks(); }, queue_);
    }
    // What GET_VRING_BASE reports: split, the next available index; packed, bits 0-14 the next available
    // offset, 15 its wrap counter, 16-30 the next used offset, 31 its wrap counter.
    std::uint32_t base() const {
        return std::visit([](const auto& queue) { return queue.base(); }, queue_);
    }
    // Finds the ring again in a changed memory table.  EINVAL: it is not there; the queue is then unusable.
    Status set_memory(const GuestMemory& memory) {
        return std::visit([&](auto& queue) { return queue.set_memory(memory); }, queue_);
    }
    bool broken() const {
        return std::visit([](const auto& queue) { return queue.broken(); }, queue_);
    }
    // Why the queue is broken: one sentence, static storage.
    const char* reason() const {
        return std::visit([](const auto& queue) { return queue.reason(); }, queue_);
    }

private:
    explicit DeviceQueue(const SplitQueue& queue) : queue_(queue) {}
    explicit DeviceQueue(const PackedQueue& queue) : queue_(queue) {}
    std::variant<SplitQueue, PackedQueue> queue_;
};

} // namespace viaduct::virtio
