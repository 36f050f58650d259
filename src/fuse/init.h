// SPDX-License-Identifier: Apache-2.0
//
// INIT: which version and which features a client and we have in common.
#pragma once

#include "base/result.h"
#include "fuse/protocol.h"

#include <cstdint>

namespace viaduct::fuse {

// What we would like, if the client offers it.
struct InitWishes {
    std::uint32_t max_write_bytes = 1U << 20;
    std::uint16_t max_background = 0xffff;       // requests that a client's kernel has under way by itself
    std::uint16_t congestion_threshold = 0xbfff; // three quarters of it
    bool readdirplus = true;
    bool readdirplus_auto = true; // the client decides; needs readdirplus
    bool atomic_o_trunc = true;   // OPEN carries O_TRUNC
    bool dont_mask = true;        // the umask is applied on our side, which knows of default ACLs
    bool posix_acl = false;       // the client enforces ACLs and hands them over; needs dont_mask
    bool supplementary_group =
        true; // what is made says if the caller is in the parent's group by another one
    bool security_context =
        false;               // what is made comes with the label that the client's security module gives it
    bool killpriv_v2 = true; // set-id bits and file capabilities are dropped on our side
    bool writeback = false;  // the client caches writes
    bool direct_io_mmap = false; // files that are read and written directly can be mapped all the same
    bool submounts = false;      // roots of other file systems are announced
    bool posix_locks = false;    // fcntl locks are kept on our side
    bool flock_locks = false;    // so are those of flock(2)
    bool cache_symlinks = false; // targets of symlinks may be cached
};

struct InitReply {
    fuse_init_out out{};
    std::size_t bytes = 0;   // of `out`: what a client of that version can take
    bool accepted = false;   // false: another major version; the client is to ask again
    std::uint32_t minor = 0; // what both speak
    std::uint64_t flags = 0; // what both have
};

// Pure.  EPROTO: a major version older than ours.
Result<InitReply> negotiate(const fuse_init_in& offer, const InitWishes& wishes) noexcept;

} // namespace viaduct::fuse
