// SPDX-License-Identifier: Apache-2.0
//
// What a passthrough share can be told.
#pragma once

#include "fs/types.h"

#include <cstdint>
#include <optional>
#include <string>

namespace viaduct::passthrough {

// What the client may keep, as virtiofsd's policies of the same names.
enum class CachePolicy {
    never,     // nothing: every call comes to us, files are read and written directly
    metadata,  // names and attributes for a day; data is read and written directly
    automatic, // names and attributes for a second; data until the file is opened again
    always,    // everything for a day: the client is the only one who changes the share
};

enum class InlineMode {
    automatic, // what is quick runs on the worker; see mounts.h
    always,    // everything that has no ring form runs on the worker
    never,     // everything goes to a ring or a helper
};

struct Options {
    std::string share;                    // a directory
    std::string share_option = "--share"; // what messages call it
    CachePolicy cache = CachePolicy::automatic;
    std::optional<fs::Validity> entry_valid; // in place of what the policy says
    std::optional<fs::Validity> attr_valid;
    bool writeback =
        false; // the client writes pages back, and reads what it needs of them through any handle
    InlineMode inline_mode = InlineMode::automatic;
    bool xattr = false;
    bool posix_acl = false; // clients enforce ACLs, and may set them
    bool read_only = false;
    bool allow_direct_io = false; // else O_DIRECT is left out when files are opened on the host
    bool fold_inodes = false;     // until begin_session() says: make inode numbers of all file systems differ
    std::uint32_t helpers_max = 16;
    std::uint32_t ring_operations_max = 64; // that may block, outstanding per worker
    // 0: as many as RLIMIT_NOFILE allows.
    std::uint32_t nodes_max = 0;
    std::uint32_t handles_max = 0;
};

} // namespace viaduct::passthrough
