// SPDX-License-Identifier: Apache-2.0
//
// FUSE requests as a client would put them together, and memory cut into segments.
#pragma once

#include "base/segments.h"
#include "fuse/protocol.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string_view>
#include <vector>

namespace viaduct::test {

// Header, then what is appended; in_header.len is right unless it is set by hand.
class FuseMessage {
public:
    explicit FuseMessage(std::uint32_t opcode, std::uint64_t node = 1, std::uint64_t unique = 77) {
        header_.opcode = opcode;
        header_.nodeid = node;
        header_.unique = unique;
    }

    template <class T> FuseMessage& with(const T& value) { return with_bytes(&value, sizeof value); }
    FuseMessage& with_string(std::string_view text) {
        with_bytes(text.data(), text.size());
        body_.push_back(std::byte{0});
        return *this;
    }
    FuseMessage& with_bytes(const void* data, std::size_t bytes) {
        const auto* const first = static_cast<const std::byte*>(data);
        body_.insert(body_.end(), first, first + bytes);
        return *this;
    }
    FuseMessage& with_zeros(std::size_t bytes) {
        body_.resize(body_.size() + bytes);
        return *this;
    }
    // Of extensions, in units of 8 bytes.
    FuseMessage& with_extensions_claimed(std::uint16_t units) {
        header_.total_extlen = units;
        return *this;
    }
    FuseMessage& claiming(std::uint32_t len) {
        claimed_ = true;
        header_.len = len;
        return *this;
    }

    std::vector<std::byte> bytes() const {
        fuse_in_header header = header_;
        if (!claimed_) header.len = static_cast<std::uint32_t>(sizeof header + body_.size());
        std::vector<std::byte> all(sizeof header);
        std::memcpy(all.data(), &header, sizeof header);
        all.insert(all.end(), body_.begin(), body_.end());
        return all;
    }

private:
    fuse_in_header header_{};
    bool claimed_ = false;
    std::vector<std::byte> body_;
};

// `memory` in pieces: first one of `first_bytes` (when that is not 0), then ones of `piece_bytes`.
inline std::vector<iovec> cut(std::vector<std::byte>& memory, std::size_t first_bytes,
                              std::size_t piece_bytes) {
    std::vector<iovec> segments;
    std::size_t at = 0;
    while (at < memory.size()) {
        std::size_t piece = at == 0 && first_bytes > 0 ? first_bytes : piece_bytes;
        piece = std::min(piece, memory.size() - at);
        segments.push_back({memory.data() + at, piece});
        at += piece;
    }
    return segments;
}

inline std::vector<iovec> whole(std::vector<std::byte>& memory) {
    return cut(memory, 0, memory.size());
}

} // namespace viaduct::test
