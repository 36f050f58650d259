// SPDX-License-Identifier: Apache-2.0
#include "session/wire.h"

#include "fuse/encode.h"

#include <array>
#include <fcntl.h>
#include <sys/stat.h>
#include <utility>

namespace viaduct::session {
namespace {

struct WireTime {
    std::uint64_t seconds;
    std::uint32_t nanoseconds;
};

WireTime split(fs::Validity validity) noexcept {
    if (validity.count() <= 0) return {0, 0};
    const auto ns = static_cast<std::uint64_t>(validity.count());
    return {ns / 1'000'000'000U, static_cast<std::uint32_t>(ns % 1'000'000'000U)};
}

// Seconds before 1970 travel as the same bits.
std::uint64_t seconds(const timespec& time) noexcept {
    return static_cast<std::uint64_t>(time.tv_sec);
}
std::uint32_t nanoseconds(const timespec& time) noexcept {
    return static_cast<std::uint32_t>(time.tv_nsec);
}

fuse_attr attr_to_wire(const fs::Attr& attr, std::uint32_t flags) noexcept {
    return {
        .ino = attr.inode,
        .size = attr.size,
        .blocks = attr.blocks,
        .atime = seconds(attr.accessed),
        .mtime = seconds(attr.modified),
        .ctime = seconds(attr.changed),
        .atimensec = nanoseconds(attr.accessed),
        .mtimensec = nanoseconds(attr.modified),
        .ctimensec = nanoseconds(attr.changed),
        .mode = attr.mode,
        .nlink = attr.links,
        .uid = attr.uid,
        .gid = attr.gid,
        .rdev = fuse::encode_device(attr.device_major, attr.device_minor),
        .blksize = attr.block_bytes,
        .flags = flags,
    };
}

fuse_sx_time statx_time(const timespec& time) noexcept {
    return {.tv_sec = time.tv_sec, .tv_nsec = nanoseconds(time), .reserved = 0};
}

} // namespace

fuse_entry_out to_wire(const fs::Entry& entry, bool submounts) noexcept {
    const WireTime entry_valid = split(entry.entry_valid);
    const WireTime attr_valid = split(entry.attr_valid);
    const std::uint32_t flags = entry.submount && submounts ? FUSE_ATTR_SUBMOUNT : 0;
    return {
        .nodeid = std::to_underlying(entry.node),
        .generation = 0, // the node id carries one
        .entry_valid = entry_valid.seconds,
        .attr_valid = attr_valid.seconds,
        .entry_valid_nsec = entry_valid.nanoseconds,
        .attr_valid_nsec = attr_valid.nanoseconds,
        .attr = attr_to_wire(entry.attr, flags),
    };
}

fuse_attr_out to_wire(const fs::AttrReply& reply) noexcept {
    const WireTime valid = split(reply.attr_valid);
    return {.attr_valid = valid.seconds,
            .attr_valid_nsec = valid.nanoseconds,
            .dummy = 0,
            .attr = attr_to_wire(reply.attr, 0)};
}

fuse_statx_out to_statx(const fs::AttrReply& reply) noexcept {
    const WireTime valid = split(reply.attr_valid);
    const fs::Attr& attr = reply.attr;
    fuse_statx_out out{};
    out.attr_valid = valid.seconds;
    out.attr_valid_nsec = valid.nanoseconds;
    out.stat.mask = STATX_BASIC_STATS | (attr.has_born ? STATX_BTIME : 0U);
    out.stat.blksize = attr.block_bytes;
    out.stat.attributes = attr.attributes;
    out.stat.attributes_mask = attr.attributes_mask;
    out.stat.nlink = attr.links;
    out.stat.uid = attr.uid;
    out.stat.gid = attr.gid;
    out.stat.mode = static_cast<std::uint16_t>(attr.mode);
    out.stat.ino = attr.inode;
    out.stat.size = attr.size;
    out.stat.blocks = attr.blocks;
    out.stat.atime = statx_time(attr.accessed);
    if (attr.has_born) out.stat.btime = statx_time(attr.born);
    out.stat.ctime = statx_time(attr.changed);
    out.stat.mtime = statx_time(attr.modified);
    out.stat.rdev_major = attr.device_major;
    out.stat.rdev_minor = attr.device_minor;
    out.stat.dev_major = attr.fs_major;
    out.stat.dev_minor = attr.fs_minor;
    return out;
}

fuse_open_out to_wire(const fs::Opened& opened) noexcept {
    std::uint32_t flags = 0;
    if (opened.direct_io) flags |= FOPEN_DIRECT_IO;
    if (opened.keep_cache) flags |= FOPEN_KEEP_CACHE;
    if (opened.cache_dir) flags |= FOPEN_CACHE_DIR;
    if (opened.parallel_direct_writes) flags |= FOPEN_PARALLEL_DIRECT_WRITES;
    fuse_open_out out{};
    out.fh = std::to_underlying(opened.handle);
    out.open_flags = flags;
    return out;
}

fuse_statfs_out to_wire(const fs::FsStat& stat) noexcept {
    fuse_statfs_out out{};
    out.st.blocks = stat.blocks;
    out.st.bfree = stat.blocks_free;
    out.st.bavail = stat.blocks_available;
    out.st.files = stat.files;
    out.st.ffree = stat.files_free;
    out.st.bsize = stat.block_bytes;
    out.st.namelen = stat.name_bytes_max;
    out.st.frsize = stat.fragment_bytes;
    return out;
}

Result<fs::SetAttr> from_wire(const fuse_setattr_in& in) noexcept {
    struct Pair {
        std::uint32_t wire;
        fs::SetAttr::Field field;
    };
    static constexpr std::array kFields{
        Pair{FATTR_MODE, fs::SetAttr::mode_field},
        Pair{FATTR_UID, fs::SetAttr::uid_field},
        Pair{FATTR_GID, fs::SetAttr::gid_field},
        Pair{FATTR_SIZE, fs::SetAttr::size_field},
        Pair{FATTR_ATIME, fs::SetAttr::accessed_field},
        Pair{FATTR_MTIME, fs::SetAttr::modified_field},
        Pair{FATTR_FH, fs::SetAttr::handle_field},
        Pair{FATTR_ATIME_NOW, fs::SetAttr::accessed_now},
        Pair{FATTR_MTIME_NOW, fs::SetAttr::modified_now},
        Pair{FATTR_CTIME, fs::SetAttr::changed_field},
        Pair{FATTR_KILL_SUIDGID, fs::SetAttr::kill_suid_sgid},
    };
    fs::SetAttr change;
    for (const Pair& pair : kFields) {
        if ((in.valid & pair.wire) != 0) change.fields |= pair.field;
    }
    // UTIME_NOW and UTIME_OMIT are such numbers: they must not get through as a client's date.
    constexpr std::uint32_t kSecondNs = 1'000'000'000;
    const bool accessed_lies = change.has(fs::SetAttr::accessed_field) && in.atimensec >= kSecondNs;
    const bool modified_lies = change.has(fs::SetAttr::modified_field) && in.mtimensec >= kSecondNs;
    if (accessed_lies || modified_lies) return fail(EINVAL);

    change.handle = fs::HandleId{in.fh};
    change.mode = in.mode;
    change.uid = in.uid;
    change.gid = in.gid;
    change.size = in.size;
    change.accessed = {.tv_sec = static_cast<time_t>(in.atime), .tv_nsec = static_cast<long>(in.atimensec)};
    change.modified = {.tv_sec = static_cast<time_t>(in.mtime), .tv_nsec = static_cast<long>(in.mtimensec)};
    return change;
}

} // namespace viaduct::session
