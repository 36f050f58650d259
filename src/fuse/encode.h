// SPDX-License-Identifier: Apache-2.0
//
// Replies: the header with its exact length, and packed directory entries.
//
// Everything is put together in a local and goes to the client's memory in one write.
#pragma once

#include "base/segments.h"
#include "fuse/protocol.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace viaduct::fuse {

// All of these return the number of bytes the reply has: 0 when there is no room for even its header.

// `error` is an errno; numbers that no client understands become EIO.
std::size_t reply_error(Segments out, std::uint64_t unique, int error) noexcept;
// A header alone: done.
std::size_t reply_done(Segments out, std::uint64_t unique) noexcept;
// The header of a reply whose `body_bytes` lie in place already.
std::size_t reply_in_place(Segments out, std::uint64_t unique, std::size_t body_bytes) noexcept;
// Header and body.  A reply that does not fit becomes EIO.
std::size_t reply_bytes(Segments out, std::uint64_t unique, const void* body,
                        std::size_t body_bytes) noexcept;

template <class Body> std::size_t reply(Segments out, std::uint64_t unique, const Body& body) noexcept {
    static_assert(std::is_trivially_copyable_v<Body>);
    static_assert(std::has_unique_object_representations_v<Body>, "padding would leak our memory");
    struct {
        fuse_out_header header;
        Body body;
    } whole{.header = {.len = kOutHeaderBytes + sizeof(Body), .error = 0, .unique = unique}, .body = body};
    static_assert(sizeof whole == kOutHeaderBytes + sizeof(Body));
    SegmentWriter writer{out};
    if (writer.write(&whole, sizeof whole) == sizeof whole) [[likely]]
        return sizeof whole;
    return reply_error(out, unique, EIO);
}

// Device numbers as they travel in one 32-bit field.
constexpr std::uint32_t encode_device(std::uint32_t major, std::uint32_t minor) noexcept {
    return (minor & 0xffU) | (major << 8U) | ((minor & ~0xffU) << 12U);
}
constexpr std::uint32_t device_major(std::uint32_t device) noexcept {
    return (device >> 8U) & 0xfffU;
}
constexpr std::uint32_t device_minor(std::uint32_t device) noexcept {
    return (device & 0xffU) | ((device >> 12U) & 0xfff00U);
}

// Packs entries of READDIR or READDIRPLUS behind the header of a reply.
class DirentPacker {
public:
    DirentPacker() = default;
    // At most `bytes_max` bytes of entries, and no more than `out` has room for.
    DirentPacker(Segments out, bool plus, std::size_t bytes_max) noexcept;

    bool has_room(std::size_t name_bytes) const noexcept { return entry_bytes(name_bytes) <= room_; }
    // false: it does not fit, and nothing was written.  `entry` is for READDIRPLUS; null means "not looked
    // up".
    bool add(std::string_view name, std::uint64_t inode, std::uint64_t next_offset, std::uint32_t type,
             const fuse_entry_out* entry) noexcept;
    std::size_t packed_bytes() const noexcept { return packed_; }

private:
    std::size_t entry_bytes(std::size_t name_bytes) const noexcept {
        return FUSE_REC_ALIGN((plus_ ? sizeof(fuse_entry_out) : 0) + sizeof(fuse_dirent) + name_bytes);
    }
    SegmentWriter writer_{Segments{}};
    std::size_t room_ = 0;
    std::size_t packed_ = 0;
    bool plus_ = false;
};

} // namespace viaduct::fuse
