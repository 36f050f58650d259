// SPDX-License-Identifier: Apache-2.0
//
// How rings lie in memory: split (virtio 1.2, section 2.7) and packed (2.8).
//
// Rings are little-endian, and so is every machine we run on.
#pragma once

#include "virtio/ring_access.h"

#include <bit>
#include <cstddef>
#include <cstdint>

namespace viaduct::virtio {

static_assert(std::endian::native == std::endian::little);

// Descriptor flags of both formats (2.7.5, 2.8.1).
inline constexpr std::uint16_t kDescNext = 1;
inline constexpr std::uint16_t kDescWrite = 2;
inline constexpr std::uint16_t kDescIndirect = 4;
// Packed only.
inline constexpr std::uint16_t kDescAvail = 1 << 7;
inline constexpr std::uint16_t kDescUsed = 1 << 15;

// Split: flags of the available and of the used ring (2.7.7, 2.7.10).
inline constexpr std::uint16_t kAvailNoInterrupt = 1;
inline constexpr std::uint16_t kUsedNoNotify = 1;

// Packed: event suppression (2.8.14).
inline constexpr std::uint16_t kEventEnable = 0;
inline constexpr std::uint16_t kEventDisable = 1;
inline constexpr std::uint16_t kEventDesc = 2;

struct SplitDescriptor {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint16_t flags;
    std::uint16_t next;
};
static_assert(sizeof(SplitDescriptor) == 16);

struct PackedDescriptor {
    std::uint64_t address;
    std::uint32_t bytes;
    std::uint16_t id;
    std::uint16_t flags;
};
static_assert(sizeof(PackedDescriptor) == 16);

// An indirect table may start at any address (2.7.5.3 asks for no alignment), so its entries are read through
// this type.  The last two bytes are `next` in a split and reserved in a packed table; `flags` lies where a
// split descriptor has it, a packed one has it last.
struct [[gnu::packed]] UnalignedWord {
    std::uint64_t value;
};

// Reads the 16 bytes of a descriptor, each once: the words are shared out afterwards.
inline SplitDescriptor read_split_descriptor(const std::byte* from) noexcept {
    const auto* const words = reinterpret_cast<const volatile UnalignedWord*>(from);
    const std::uint64_t address = words[0].value;
    const std::uint64_t rest = words[1].value;
    return {.address = address,
            .bytes = static_cast<std::uint32_t>(rest),
            .flags = static_cast<std::uint16_t>(rest >> 32),
            .next = static_cast<std::uint16_t>(rest >> 48)};
}
inline PackedDescriptor read_packed_descriptor(const std::byte* from) noexcept {
    const auto* const words = reinterpret_cast<const volatile UnalignedWord*>(from);
    const std::uint64_t address = words[0].value;
    const std::uint64_t rest = words[1].value;
    return {.address = address,
            .bytes = static_cast<std::uint32_t>(rest),
            .id = static_cast<std::uint16_t>(rest >> 32),
            .flags = static_cast<std::uint16_t>(rest >> 48)};
}

// Available ring: flags, idx, ring[size], used_event (2.7.6).
struct AvailRing {
    std::uint16_t flags;
    std::uint16_t idx;

    std::uint16_t* ring() noexcept { return reinterpret_cast<std::uint16_t*>(this + 1); }
    const std::uint16_t* ring() const noexcept { return reinterpret_cast<const std::uint16_t*>(this + 1); }
};
// Used ring: flags, idx, ring[size], avail_event (2.7.8).
struct UsedElement {
    std::uint32_t id;
    std::uint32_t bytes;
};
struct UsedRing {
    std::uint16_t flags;
    std::uint16_t idx;

    UsedElement* ring() noexcept { return reinterpret_cast<UsedElement*>(this + 1); }
    const UsedElement* ring() const noexcept { return reinterpret_cast<const UsedElement*>(this + 1); }
};

constexpr std::uint64_t split_descriptor_bytes(std::uint32_t size) {
    return 16ULL * size;
}
constexpr std::uint64_t split_avail_bytes(std::uint32_t size) {
    return 6 + 2ULL * size;
}
constexpr std::uint64_t split_used_bytes(std::uint32_t size) {
    return 6 + 8ULL * size;
}
constexpr std::uint64_t packed_descriptor_bytes(std::uint32_t size) {
    return 16ULL * size;
}

// Did an index that went from `before` to `now` pass `event`?  All three run through 65535 (2.7.10).
constexpr bool event_passed(std::uint16_t event, std::uint16_t now, std::uint16_t before) {
    return static_cast<std::uint16_t>(now - event - 1) < static_cast<std::uint16_t>(now - before);
}

// A place in a packed ring and the wrap counter there (2.8.1).
struct PackedPosition {
    std::uint32_t offset = 0;
    bool wrap = true;

    // `count` is at most `size`.
    void advance(std::uint32_t count, std::uint32_t size) noexcept {
        offset += count;
        if (offset >= size) {
            offset -= size;
            wrap = !wrap;
        }
    }
    // Bits 0-14 the offset, bit 15 the wrap counter, as event suppression and vring bases have it.
    std::uint16_t bits() const noexcept { return static_cast<std::uint16_t>(offset | (wrap ? 0x8000U : 0U)); }
    static PackedPosition of(std::uint16_t bits) noexcept {
        return {.offset = bits & 0x7fffU, .wrap = (bits & 0x8000U) != 0};
    }
    // How many entries lie from `before` to here when they are at most `size`; more means nonsense.
    std::uint32_t since(PackedPosition before, std::uint32_t size) const noexcept {
        return offset + (wrap != before.wrap ? size : 0U) - before.offset; // below zero: a huge number
    }
    friend bool operator==(PackedPosition, PackedPosition) noexcept = default;
};

// Available in the eyes of the device, used in the eyes of the driver (2.8.1).
constexpr bool packed_available(std::uint16_t flags, bool wrap) {
    return ((flags & kDescAvail) != 0) == wrap && ((flags & kDescUsed) != 0) != wrap;
}
constexpr bool packed_used(std::uint16_t flags, bool wrap) {
    return ((flags & kDescAvail) != 0) == wrap && ((flags & kDescUsed) != 0) == wrap;
}
constexpr std::uint16_t packed_available_flags(bool wrap) {
    return wrap ? kDescAvail : kDescUsed;
}
constexpr std::uint16_t packed_used_flags(bool wrap) {
    return wrap ? kDescAvail | kDescUsed : 0;
}

// Event suppression is read and written as one word: position in bits 0-15, flags in 16-31, so that neither
// side acts on half of a change.
constexpr std::uint32_t packed_event_word(std::uint16_t position, std::uint16_t flags) {
    return position | (static_cast<std::uint32_t>(flags) << 16);
}

// Does the other side want to be told about the `count` entries that end just before `now`?  Without
// EVENT_IDX the position means nothing; the reserved flag value counts as "always" (2.8.10).
inline bool packed_event_wanted(std::uint32_t word, PackedPosition now, std::uint32_t count,
                                std::uint32_t size, bool event_idx) noexcept {
    const auto flags = static_cast<std::uint16_t>(word >> 16);
    if (flags == kEventDisable) return false;
    if (flags != kEventDesc || !event_idx) return true;
    const PackedPosition event = PackedPosition::of(static_cast<std::uint16_t>(word));
    const std::uint32_t behind = now.since(event, size);
    return behind >= 1 && behind <= count;
}

} // namespace viaduct::virtio
