// SPDX-License-Identifier: Apache-2.0
#include "session/handlers.h"

#include "fuse/protocol.h"
#include "session/answer.h"
#include "session/wire.h"

#include <array>

namespace viaduct::session {
namespace {

constexpr auto kHandlers = [] {
    std::array<Handler, fuse::kOpcodeCount> table{};
    table[FUSE_LOOKUP] = serve_lookup;
    table[FUSE_FORGET] = serve_forget;
    table[FUSE_GETATTR] = serve_getattr;
    table[FUSE_SETATTR] = serve_setattr;
    table[FUSE_READLINK] = serve_readlink;
    table[FUSE_SYMLINK] = serve_symlink;
    table[FUSE_MKNOD] = serve_mknod;
    table[FUSE_MKDIR] = serve_mkdir;
    table[FUSE_UNLINK] = serve_unlink;
    table[FUSE_RMDIR] = serve_rmdir;
    table[FUSE_RENAME] = serve_rename;
    table[FUSE_LINK] = serve_link;
    table[FUSE_OPEN] = serve_open;
    table[FUSE_READ] = serve_read;
    table[FUSE_WRITE] = serve_write;
    table[FUSE_STATFS] = serve_statfs;
    table[FUSE_RELEASE] = serve_release;
    table[FUSE_FSYNC] = serve_fsync;
    table[FUSE_SETXATTR] = serve_setxattr;
    table[FUSE_GETXATTR] = serve_getxattr;
    table[FUSE_LISTXATTR] = serve_listxattr;
    table[FUSE_REMOVEXATTR] = serve_removexattr;
    table[FUSE_FLUSH] = serve_flush;
    table[FUSE_OPENDIR] = serve_opendir;
    table[FUSE_READDIR] = serve_readdir;
    table[FUSE_RELEASEDIR] = serve_releasedir;
    table[FUSE_FSYNCDIR] = serve_fsyncdir;
    table[FUSE_GETLK] = serve_getlk;
    table[FUSE_SETLK] = serve_setlk;
    table[FUSE_SETLKW] = serve_setlkw;
    table[FUSE_ACCESS] = serve_access;
    table[FUSE_CREATE] = serve_create;
    table[FUSE_BATCH_FORGET] = serve_batch_forget;
    table[FUSE_FALLOCATE] = serve_fallocate;
    table[FUSE_READDIRPLUS] = serve_readdirplus;
    table[FUSE_RENAME2] = serve_rename2;
    table[FUSE_LSEEK] = serve_lseek;
    table[FUSE_COPY_FILE_RANGE] = serve_copy_file_range;
    table[FUSE_SYNCFS] = serve_syncfs;
    table[FUSE_TMPFILE] = serve_tmpfile;
    table[FUSE_STATX] = serve_statx;
    table[FUSE_COPY_FILE_RANGE_64] = serve_copy_file_range_64;
    return table;
}();

} // namespace

Handler handler_of(std::uint32_t opcode) noexcept {
    return opcode < kHandlers.size() ? kHandlers[opcode] : nullptr;
}

std::size_t encode_done(Lane&, Call& call) {
    return call.reply_done();
}

std::size_t encode_entry(Lane& lane, Call& call, const fs::Entry& entry) {
    return call.reply(to_wire(entry, lane.negotiated.submounts));
}

std::size_t encode_attr(Lane&, Call& call, const fs::AttrReply& reply) {
    return call.reply(to_wire(reply));
}

std::size_t encode_opened(Lane&, Call& call, const fs::Opened& opened) {
    return call.reply(to_wire(opened));
}

} // namespace viaduct::session
