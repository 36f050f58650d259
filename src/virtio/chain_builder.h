// SPDX-License-Identifier: Apache-2.0
//
// Turns the descriptors of one chain into segments, and refuses what no chain may be.  Used by both ring
// formats and by their indirect tables.
#pragma once

#include "virtio/guest_memory.h"
#include "virtio/peer_order.h"
#include "virtio/queue_layout.h"

#include <cstdint>

namespace viaduct::virtio {

class ChainBuilder {
public:
    // A chain holds at most 2^32 bytes (2.7.5.2): lengths up to there cannot overflow a sum either.
    static constexpr std::uint64_t kChainBytesMax = 1ULL << 32;
    // Most entries of an indirect table.  More than a small ring has: tables of 514 entries come with 1 MiB
    // requests whatever the size of the ring.
    static constexpr std::uint32_t kIndirectEntriesMax = kQueueSizeMax;

    // Empties `chain`.
    ChainBuilder(const GuestMemory& memory, Chain& chain) noexcept : memory_(memory), chain_(chain) {
        chain.readable.clear();
        chain.writable.clear();
        chain.readable_bytes = 0;
        chain.writable_bytes = 0;
    }

    // nullptr, or why the descriptor is refused.
    const char* add(std::uint64_t address, std::uint32_t bytes, bool writable) {
        writable_seen_ |= writable;
        if (writable_seen_ && !writable) [[unlikely]]
            return "a readable descriptor follows a writable one"; // 2.7.4.2, 2.8.5
        if (bytes == 0) return nullptr;
        std::vector<iovec>& to = writable ? chain_.writable : chain_.readable;
        (writable ? chain_.writable_bytes : chain_.readable_bytes) += bytes;
        if (chain_.readable_bytes + chain_.writable_bytes > kChainBytesMax) [[unlikely]]
            return "a chain is longer than 4 GiB";
        if (std::byte* const host = memory_.at(GuestAddress{address}, bytes)) [[likely]] {
            to.push_back({.iov_base = host, .iov_len = bytes});
            return nullptr;
        }
        if (!memory_.append_segments(GuestAddress{address}, bytes, to))
            return "a descriptor points outside guest memory";
        return nullptr;
    }

private:
    const GuestMemory& memory_;
    Chain& chain_;
    bool writable_seen_ = false;
};

// Where an indirect table lies and how many entries it has.
struct IndirectTable {
    const std::byte* start = nullptr;
    std::uint32_t entries = 0;

    // nullptr, or why there is no such table.
    static const char* find(const GuestMemory& memory, std::uint64_t address, std::uint32_t bytes,
                            IndirectTable& table) noexcept {
        if (bytes == 0 || bytes % 16 != 0) return "the length of an indirect table is no multiple of 16";
        if (bytes / 16 > ChainBuilder::kIndirectEntriesMax) return "an indirect table has over 32768 entries";
        table = {.start = memory.at(GuestAddress{address}, bytes), .entries = bytes / 16};
        if (table.start == nullptr) return "an indirect table lies outside guest memory";
        taken_from_guest(table.start, bytes);
        return nullptr;
    }
    // No entry is read any more.
    void done() const noexcept { leave_to_guest(start, 16ULL * entries); }
    const std::byte* entry(std::uint32_t index) const noexcept { return start + 16ULL * index; }
};

} // namespace viaduct::virtio
