// SPDX-License-Identifier: Apache-2.0
//
// Goes through the entries of a READDIR or READDIRPLUS reply, without copying them.
#pragma once

#include "fuse/protocol.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace viaduct::driver {

class DirectoryWalk {
public:
    struct Entry {
        std::uint64_t ino = 0;
        std::uint64_t offset = 0; // where the listing goes on behind it
        std::uint32_t type = 0;   // DT_*
        std::string_view name;
        fuse_entry_out entry{}; // of READDIRPLUS; all zero otherwise
    };

    // `bytes` outlive the names.
    DirectoryWalk(std::span<const std::byte> bytes, bool plus) noexcept : rest_(bytes), plus_(plus) {}

    // Nothing: the end, or an entry that runs beyond it.
    std::optional<Entry> next() noexcept {
        if (rest_.empty() || malformed_) return std::nullopt;
        Entry found;
        std::size_t used = 0;
        if (plus_) {
            if (rest_.size() < sizeof found.entry) return cut();
            std::memcpy(&found.entry, rest_.data(), sizeof found.entry);
            used = sizeof found.entry;
        }
        fuse_dirent dirent;
        if (rest_.size() - used < FUSE_NAME_OFFSET) return cut();
        std::memcpy(&dirent, rest_.data() + used, FUSE_NAME_OFFSET);
        used += FUSE_NAME_OFFSET;
        if (rest_.size() - used < dirent.namelen) return cut();
        found.ino = dirent.ino;
        found.offset = dirent.off;
        found.type = dirent.type;
        found.name = {reinterpret_cast<const char*>(rest_.data() + used), dirent.namelen};
        used = FUSE_DIRENT_ALIGN(used + dirent.namelen);
        if (rest_.size() < used) return cut(); // entries are padded, the last one too
        rest_ = rest_.subspan(used);
        return found;
    }
    bool malformed() const noexcept { return malformed_; }

private:
    std::optional<Entry> cut() noexcept {
        malformed_ = true;
        return std::nullopt;
    }

    std::span<const std::byte> rest_;
    const bool plus_;
    bool malformed_ = false;
};

} // namespace viaduct::driver
