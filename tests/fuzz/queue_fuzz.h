// SPDX-License-Identifier: Apache-2.0
//
// A device queue over guest memory made of fuzz input.
//
// Input: one byte of options, one of size, one word of base (packed: two), pieces of guest memory, then
// steps. Guest memory is small, so that random addresses hit it.  make_queue_corpus.py writes such inputs.
#pragma once

#include "base/assert.h"
#include "virtio/device_queue.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <span>

namespace viaduct::virtio {

// Descriptors at 0x0000, driver area at 0x1000, device area at 0x2000, free for tables and data from 0x3000
// on. A second region touches the first, a third lies apart.
class FuzzMemory {
public:
    static constexpr std::size_t kRegionBytes = 0x4000;

    FuzzMemory() {
        bytes_.fill(std::byte{0});
        view_ = GuestMemory::make(
                    {{GuestAddress{0}, 0, kRegionBytes, bytes_.data()},
                     {GuestAddress{kRegionBytes}, 0x10'0000, 0x1000, bytes_.data() + kRegionBytes},
                     {GuestAddress{0x10'0000}, 0x20'0000, 0x1000, bytes_.data() + kRegionBytes + 0x1000}})
                    .value();
    }
    const GuestMemory& view() const { return view_; }
    std::byte* at(std::size_t offset) { return bytes_.data() + offset; }
    std::size_t size() const { return bytes_.size(); }
    bool holds(const iovec& segment) const {
        const auto* const start = static_cast<const std::byte*>(segment.iov_base);
        if (start < bytes_.data() || start >= bytes_.data() + bytes_.size()) return false;
        return segment.iov_len <= static_cast<std::size_t>(bytes_.data() + bytes_.size() - start);
    }

private:
    alignas(4096) std::array<std::byte, kRegionBytes + 0x2000> bytes_;
    GuestMemory view_;
};

class FuzzInput {
public:
    explicit FuzzInput(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

    std::uint8_t byte() {
        if (bytes_.empty()) return 0;
        const std::uint8_t value = bytes_.front();
        bytes_ = bytes_.subspan(1);
        return value;
    }
    std::uint16_t word() {
        const unsigned low = byte();
        return static_cast<std::uint16_t>(low | (unsigned{byte()} << 8));
    }
    void copy(std::byte* to, std::size_t bytes_max) {
        const std::size_t count = std::min(bytes_max, bytes_.size());
        std::memcpy(to, bytes_.data(), count);
        bytes_ = bytes_.subspan(count);
    }
    bool empty() const { return bytes_.empty(); }

private:
    std::span<const std::uint8_t> bytes_;
};

// What a chain promises whatever the guest wrote.
inline void check_chain(const Chain& chain, const FuzzMemory& memory) {
    std::uint64_t readable_bytes = 0;
    for (const iovec& segment : chain.readable) {
        ASSERT(memory.holds(segment));
        ASSERT(segment.iov_len > 0);
        readable_bytes += segment.iov_len;
    }
    std::uint64_t writable_bytes = 0;
    for (const iovec& segment : chain.writable) {
        ASSERT(memory.holds(segment));
        ASSERT(segment.iov_len > 0);
        writable_bytes += segment.iov_len;
    }
    ASSERT(readable_bytes == chain.readable_bytes);
    ASSERT(writable_bytes == chain.writable_bytes);
}

// Pieces of memory arrive as (length, place, bytes) until a length of 0; later steps may add more, as a guest
// that writes while the device runs.
inline void write_pieces(FuzzInput& input, FuzzMemory& memory) {
    for (std::uint8_t length = input.byte(); length != 0; length = input.byte()) {
        const std::size_t place = input.word() % memory.size();
        input.copy(memory.at(place), std::min<std::size_t>(length, memory.size() - place));
    }
}

inline void fuzz_queue(bool packed, std::span<const std::uint8_t> bytes) {
    FuzzInput input{bytes};
    FuzzMemory memory;
    const std::uint8_t options = input.byte();
    QueueLayout layout{.packed = packed,
                       .event_idx = (options & 1) != 0,
                       .indirect = (options & 2) != 0,
                       .size = input.byte() % 65U,
                       .descriptor_area = 0,
                       .driver_area = 0x1000,
                       .device_area = 0x2000};
    layout.base = input.word();
    if (packed) layout.base |= static_cast<std::uint32_t>(input.word()) << 16;
    write_pieces(input, memory);

    auto made = DeviceQueue::make(memory.view(), layout);
    if (!made) return;
    DeviceQueue queue = std::move(*made);
    std::deque<ChainTicket> taken;
    // Each start believes used.idx, which the guest may have changed: the bound holds from start to start.
    std::size_t taken_max = layout.size;
    Chain chain;
    for (int step = 0; step < 256 && !input.empty(); ++step) {
        switch (const std::uint8_t action = input.byte(); action % 8) {
        case 0:
        case 1:
            if (const auto popped = queue.pop(chain); popped && *popped) {
                check_chain(chain, memory);
                taken.push_back(chain.ticket);
                ASSERT(taken.size() <= taken_max);
            } else if (!popped) {
                ASSERT(queue.broken());
                ASSERT(!queue.has_work());
            }
            break;
        case 2:
        case 3:
            if (taken.empty()) break;
            if (action % 8 == 3) std::swap(taken.front(), taken.back());
            queue.push(taken.front(), action);
            taken.pop_front();
            break;
        case 4:
            queue.publish();
            break;
        case 5:
            queue.suppress_kicks();
            break;
        case 6:
            queue.enable_kicks();
            break;
        case 7:
            // A stop and a start, with requests out.
            queue.publish();
            if (action >= 128) {
                layout.base = queue.base();
                taken_max = taken.size() + layout.size;
                if (auto again = DeviceQueue::make(memory.view(), layout)) queue = std::move(*again);
            } else {
                write_pieces(input, memory);
            }
            break;
        }
    }
}

} // namespace viaduct::virtio
