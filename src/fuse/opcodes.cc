// SPDX-License-Identifier: Apache-2.0
#include "fuse/opcodes.h"

#include "fuse/protocol.h"

#include <array>

namespace viaduct::fuse {
namespace {

using enum Verdict;
using enum OpcodeClass;

struct None {};
template <class T> inline constexpr std::uint16_t kBytes = sizeof(T);
template <> inline constexpr std::uint16_t kBytes<None> = 0;

template <class In, class Out = None>
constexpr Opcode serve(std::uint32_t number, const char* name, OpcodeClass group) {
    return {.number = number,
            .name = name,
            .verdict = served,
            .group = group,
            .in_bytes_min = kBytes<In>,
            .in_bytes_max = kBytes<In>,
            .reply_bytes = kBytes<Out>};
}
constexpr Opcode with_in_bytes_min(Opcode entry, std::uint16_t bytes) {
    entry.in_bytes_min = bytes;
    return entry;
}
constexpr Opcode without_reply(Opcode entry) {
    entry.has_reply = false;
    return entry;
}
constexpr Opcode gives_out(Opcode entry) {
    entry.gives_out = true;
    return entry;
}
constexpr Opcode refuse(std::uint32_t number, const char* name, OpcodeClass group, const char* reason) {
    return {.number = number, .name = name, .verdict = refused, .group = group, .reason = reason};
}

constexpr const char* kMappingReason = "the device has no shared memory window (DAX)";

struct CreateReply {
    fuse_entry_out entry;
    fuse_open_out open;
};
static_assert(sizeof(CreateReply) == sizeof(fuse_entry_out) + sizeof(fuse_open_out));

constexpr std::array kEntries{
    gives_out(serve<None, fuse_entry_out>(FUSE_LOOKUP, "LOOKUP", nodes)),
    without_reply(serve<fuse_forget_in>(FUSE_FORGET, "FORGET", nodes)),
    serve<fuse_getattr_in, fuse_attr_out>(FUSE_GETATTR, "GETATTR", nodes),
    serve<fuse_setattr_in, fuse_attr_out>(FUSE_SETATTR, "SETATTR", nodes),
    serve<None>(FUSE_READLINK, "READLINK", nodes),
    gives_out(serve<None, fuse_entry_out>(FUSE_SYMLINK, "SYMLINK", names)),
    gives_out(serve<fuse_mknod_in, fuse_entry_out>(FUSE_MKNOD, "MKNOD", names)),
    gives_out(serve<fuse_mkdir_in, fuse_entry_out>(FUSE_MKDIR, "MKDIR", names)),
    serve<None>(FUSE_UNLINK, "UNLINK", names),
    serve<None>(FUSE_RMDIR, "RMDIR", names),
    serve<fuse_rename_in>(FUSE_RENAME, "RENAME", names),
    gives_out(serve<fuse_link_in, fuse_entry_out>(FUSE_LINK, "LINK", names)),
    gives_out(serve<fuse_open_in, fuse_open_out>(FUSE_OPEN, "OPEN", files)),
    serve<fuse_read_in>(FUSE_READ, "READ", files),
    serve<fuse_write_in, fuse_write_out>(FUSE_WRITE, "WRITE", files),
    serve<None, fuse_statfs_out>(FUSE_STATFS, "STATFS", nodes),
    serve<fuse_release_in>(FUSE_RELEASE, "RELEASE", files),
    serve<fuse_fsync_in>(FUSE_FSYNC, "FSYNC", files),
    with_in_bytes_min(serve<fuse_setxattr_in>(FUSE_SETXATTR, "SETXATTR", attributes),
                      FUSE_COMPAT_SETXATTR_IN_SIZE),
    serve<fuse_getxattr_in>(FUSE_GETXATTR, "GETXATTR", attributes),
    serve<fuse_getxattr_in>(FUSE_LISTXATTR, "LISTXATTR", attributes),
    serve<None>(FUSE_REMOVEXATTR, "REMOVEXATTR", attributes),
    serve<fuse_flush_in>(FUSE_FLUSH, "FLUSH", files),
    // Major and minor came first, max_readahead and flags with 7.6, flags2 with 7.36.
    with_in_bytes_min(serve<fuse_init_in>(FUSE_INIT, "INIT", session), 8),
    gives_out(serve<fuse_open_in, fuse_open_out>(FUSE_OPENDIR, "OPENDIR", directories)),
    serve<fuse_read_in>(FUSE_READDIR, "READDIR", directories),
    serve<fuse_release_in>(FUSE_RELEASEDIR, "RELEASEDIR", directories),
    serve<fuse_fsync_in>(FUSE_FSYNCDIR, "FSYNCDIR", directories),
    serve<fuse_lk_in, fuse_lk_out>(FUSE_GETLK, "GETLK", locks),
    serve<fuse_lk_in>(FUSE_SETLK, "SETLK", locks),
    serve<fuse_lk_in>(FUSE_SETLKW, "SETLKW", locks),
    serve<fuse_access_in>(FUSE_ACCESS, "ACCESS", nodes),
    gives_out(serve<fuse_create_in, CreateReply>(FUSE_CREATE, "CREATE", names)),
    without_reply(serve<fuse_interrupt_in>(FUSE_INTERRUPT, "INTERRUPT", session)),
    refuse(FUSE_BMAP, "BMAP", files, "a share has no block device that the client could address"),
    serve<None>(FUSE_DESTROY, "DESTROY", session),
    refuse(FUSE_IOCTL, "IOCTL", files, "ioctls of a client do not reach the host; the client reports ENOTTY"),
    refuse(FUSE_POLL, "POLL", files, "regular files are always ready; the client then polls by itself"),
    without_reply(
        refuse(FUSE_NOTIFY_REPLY, "NOTIFY_REPLY", other, "nothing is retrieved from the client's cache")),
    without_reply(serve<fuse_batch_forget_in>(FUSE_BATCH_FORGET, "BATCH_FORGET", nodes)),
    serve<fuse_fallocate_in>(FUSE_FALLOCATE, "FALLOCATE", files),
    gives_out(serve<fuse_read_in>(FUSE_READDIRPLUS, "READDIRPLUS", directories)),
    serve<fuse_rename2_in>(FUSE_RENAME2, "RENAME2", names),
    serve<fuse_lseek_in, fuse_lseek_out>(FUSE_LSEEK, "LSEEK", files),
    serve<fuse_copy_file_range_in, fuse_write_out>(FUSE_COPY_FILE_RANGE, "COPY_FILE_RANGE", files),
    refuse(FUSE_SETUPMAPPING, "SETUPMAPPING", mapping, kMappingReason),
    refuse(FUSE_REMOVEMAPPING, "REMOVEMAPPING", mapping, kMappingReason),
    serve<fuse_syncfs_in>(FUSE_SYNCFS, "SYNCFS", nodes),
    gives_out(serve<fuse_create_in, CreateReply>(FUSE_TMPFILE, "TMPFILE", names)),
    serve<fuse_statx_in, fuse_statx_out>(FUSE_STATX, "STATX", nodes),
    serve<fuse_copy_file_range_in, fuse_copy_file_range_out>(FUSE_COPY_FILE_RANGE_64, "COPY_FILE_RANGE_64",
                                                             files),
    refuse(CUSE_INIT, "CUSE_INIT", session, "this is no character device"),
    refuse(CUSE_INIT_BSWAP_RESERVED, "CUSE_INIT_BSWAP", session, "a client of the other byte order"),
    refuse(FUSE_INIT_BSWAP_RESERVED, "INIT_BSWAP", session, "a client of the other byte order"),
};

// Small numbers index the table; the few large ones follow.
constexpr std::size_t kLargeCount = 3;
constexpr auto kTable = [] {
    std::array<Opcode, kOpcodeCount + kLargeCount> table{};
    for (std::size_t index = 0; index < kOpcodeCount; ++index) {
        table[index].number = static_cast<std::uint32_t>(index);
        table[index].name = "unassigned";
    }
    std::size_t large = kOpcodeCount;
    for (const Opcode& entry : kEntries) table[entry.number < kOpcodeCount ? entry.number : large++] = entry;
    return table;
}();

constexpr Opcode kUnknown{.number = 0, .name = "unknown"};

} // namespace

const Opcode& opcode(std::uint32_t number) noexcept {
    if (number < kOpcodeCount) [[likely]]
        return kTable[number];
    for (std::size_t index = kOpcodeCount; index < kTable.size(); ++index) {
        if (kTable[index].number == number) return kTable[index];
    }
    return kUnknown;
}

std::span<const Opcode> opcodes() noexcept {
    return kTable;
}

} // namespace viaduct::fuse
