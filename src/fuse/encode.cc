// SPDX-License-Identifier: Apache-2.0
#include "fuse/encode.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <limits>

namespace viaduct::fuse {
namespace {

// Clients take errors from -511 to 0; the numbers from 512 on are a kernel's own.
constexpr int kErrorMax = 511;
constexpr std::size_t kNameBytesMax = 255;

std::size_t put_header(Segments out, std::uint64_t unique, int error, std::size_t body_bytes) noexcept {
    const fuse_out_header header{
        .len = static_cast<std::uint32_t>(kOutHeaderBytes + body_bytes), .error = error, .unique = unique};
    SegmentWriter writer{out};
    if (writer.write(&header, sizeof header) < sizeof header) return 0;
    return kOutHeaderBytes + body_bytes;
}

} // namespace

std::size_t reply_error(Segments out, std::uint64_t unique, int error) noexcept {
    if (error < 1 || error > kErrorMax) error = EIO;
    return put_header(out, unique, -error, 0);
}

std::size_t reply_done(Segments out, std::uint64_t unique) noexcept {
    return put_header(out, unique, 0, 0);
}

std::size_t reply_in_place(Segments out, std::uint64_t unique, std::size_t body_bytes) noexcept {
    return put_header(out, unique, 0, body_bytes);
}

std::size_t reply_bytes(Segments out, std::uint64_t unique, const void* body,
                        std::size_t body_bytes) noexcept {
    if (body_bytes > std::numeric_limits<std::uint32_t>::max() - kOutHeaderBytes)
        return reply_error(out, unique, EIO);
    SegmentWriter writer{out};
    if (writer.skip(kOutHeaderBytes) < kOutHeaderBytes) return 0;
    if (writer.write(body, body_bytes) != body_bytes) return reply_error(out, unique, EIO);
    return put_header(out, unique, 0, body_bytes);
}

DirentPacker::DirentPacker(Segments out, bool plus, std::size_t bytes_max) noexcept
    : writer_(out), plus_(plus) {
    if (writer_.skip(kOutHeaderBytes) == kOutHeaderBytes) room_ = std::min(bytes_max, writer_.room());
}

bool DirentPacker::add(std::string_view name, std::uint64_t inode, std::uint64_t next_offset,
                       std::uint32_t type, const fuse_entry_out* entry) noexcept {
    if (name.size() > kNameBytesMax || !has_room(name.size())) return false;

    std::array<std::byte, FUSE_REC_ALIGN(sizeof(fuse_entry_out) + sizeof(fuse_dirent) + kNameBytesMax)>
        packed;
    std::byte* at = packed.data();
    if (plus_) {
        if (entry != nullptr)
            std::memcpy(at, entry, sizeof *entry);
        else
            std::memset(at, 0, sizeof *entry); // node 0: the client looks it up itself
        at += sizeof(fuse_entry_out);
    }
    const fuse_dirent dirent{
        .ino = inode, .off = next_offset, .namelen = static_cast<std::uint32_t>(name.size()), .type = type};
    std::memcpy(at, &dirent, sizeof dirent);
    at += sizeof dirent;
    std::memcpy(at, name.data(), name.size());
    at += name.size();

    const std::size_t bytes = entry_bytes(name.size());
    std::memset(at, 0, bytes - static_cast<std::size_t>(at - packed.data()));
    writer_.write(packed.data(), bytes);
    room_ -= bytes;
    packed_ += bytes;
    return true;
}

} // namespace viaduct::fuse
