// SPDX-License-Identifier: Apache-2.0
#include "fuse/init.h"

#include <algorithm>

namespace viaduct::fuse {
namespace {

constexpr std::uint32_t kPageBytes = 4096;
constexpr std::uint32_t kPagesMax = 0xffff; // the field has 16 bits
// Pages in a request of a client that cannot be told (before 7.28).
constexpr std::uint32_t kPagesWithoutMaxPages = 32;

std::uint64_t offered_flags(const fuse_init_in& offer) noexcept {
    std::uint64_t flags = offer.flags;
    // flags2 is meaningful only where the client says so: it was unused memory before.
    if ((flags & FUSE_INIT_EXT) != 0) flags |= std::uint64_t{offer.flags2} << 32U;
    return flags;
}

// Not asked for, with the reason: ALLOW_IDMAP (needs default permissions on this side), PASSTHROUGH and
// OVER_IO_URING are not built; EXPORT_SUPPORT would need lookups of "." and ".."; NO_OPEN_SUPPORT and
// NO_OPENDIR_SUPPORT need nothing to be held per open file; EXPLICIT_INVAL_DATA contradicts AUTO_INVAL_DATA;
// MAP_ALIGNMENT and HAS_INODE_DAX need DAX; HAS_IOCTL_DIR needs ioctls; SPLICE_* and ABORT_ERROR concern
// /dev/fuse; HANDLE_KILLPRIV is the older form.
std::uint64_t wanted_flags(const InitWishes& wishes) noexcept {
    std::uint64_t flags = FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_AUTO_INVAL_DATA | FUSE_ASYNC_DIO |
                          FUSE_PARALLEL_DIROPS | FUSE_MAX_PAGES | FUSE_SETXATTR_EXT | FUSE_INIT_EXT;
    if (wishes.readdirplus) flags |= FUSE_DO_READDIRPLUS;
    if (wishes.readdirplus && wishes.readdirplus_auto) flags |= FUSE_READDIRPLUS_AUTO;
    if (wishes.atomic_o_trunc) flags |= FUSE_ATOMIC_O_TRUNC;
    if (wishes.dont_mask) flags |= FUSE_DONT_MASK;
    if (wishes.posix_acl) flags |= FUSE_POSIX_ACL;
    if (wishes.supplementary_group) flags |= FUSE_CREATE_SUPP_GROUP;
    if (wishes.security_context) flags |= FUSE_SECURITY_CTX;
    if (wishes.killpriv_v2) flags |= FUSE_HANDLE_KILLPRIV_V2;
    if (wishes.writeback) flags |= FUSE_WRITEBACK_CACHE;
    if (wishes.direct_io_mmap) flags |= FUSE_DIRECT_IO_ALLOW_MMAP;
    if (wishes.submounts) flags |= FUSE_SUBMOUNTS;
    if (wishes.posix_locks) flags |= FUSE_POSIX_LOCKS;
    if (wishes.flock_locks) flags |= FUSE_FLOCK_LOCKS;
    if (wishes.cache_symlinks) flags |= FUSE_CACHE_SYMLINKS;
    return flags;
}

std::size_t reply_size(std::uint32_t minor) noexcept {
    if (minor < 5) return FUSE_COMPAT_INIT_OUT_SIZE;
    if (minor < 23) return FUSE_COMPAT_22_INIT_OUT_SIZE;
    return sizeof(fuse_init_out);
}

} // namespace

Result<InitReply> negotiate(const fuse_init_in& offer, const InitWishes& wishes) noexcept {
    if (offer.major < kMajor) return fail(EPROTO);

    InitReply reply;
    reply.out.major = kMajor;
    reply.out.minor = kMinor;
    reply.bytes = sizeof(fuse_init_out);
    if (offer.major > kMajor) return reply;

    reply.accepted = true;
    reply.minor = std::min(offer.minor, kMinor);
    reply.bytes = reply_size(reply.minor);
    reply.flags = offered_flags(offer) & wanted_flags(wishes);
    // Adaptive use is a refinement of the feature.
    if ((reply.flags & FUSE_DO_READDIRPLUS) == 0) reply.flags &= ~std::uint64_t{FUSE_READDIRPLUS_AUTO};

    // Of the umask and of set-group-id with ACLs only this side can be the judge.
    constexpr std::uint64_t kAclNeeds = FUSE_DONT_MASK | FUSE_SETXATTR_EXT;
    if ((reply.flags & kAclNeeds) != kAclNeeds) reply.flags &= ~std::uint64_t{FUSE_POSIX_ACL};

    std::uint32_t max_write = std::clamp(wishes.max_write_bytes, kPageBytes, kPagesMax * kPageBytes);
    if ((reply.flags & FUSE_MAX_PAGES) == 0)
        max_write = std::min(max_write, kPagesWithoutMaxPages * kPageBytes);

    reply.out.max_readahead = offer.max_readahead;
    reply.out.flags = static_cast<std::uint32_t>(reply.flags);
    reply.out.flags2 = static_cast<std::uint32_t>(reply.flags >> 32U);
    reply.out.max_background = wishes.max_background;
    reply.out.congestion_threshold = wishes.congestion_threshold;
    reply.out.max_write = max_write;
    reply.out.time_gran = 1;
    if ((reply.flags & FUSE_MAX_PAGES) != 0)
        reply.out.max_pages = static_cast<std::uint16_t>((max_write + kPageBytes - 1) / kPageBytes);
    return reply;
}

} // namespace viaduct::fuse
