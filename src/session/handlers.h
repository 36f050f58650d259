// SPDX-License-Identifier: Apache-2.0
//
// One function per opcode: takes the request apart, calls the FileSystem, has the result answered.
#pragma once

#include "session/call.h"
#include "session/lane.h"

#include <cstdint>

namespace viaduct::session {

// nullptr for opcodes that are not a FileSystem's: those refused, and INIT, DESTROY, INTERRUPT.
Handler handler_of(std::uint32_t opcode) noexcept;

// handlers_node.cc
void serve_lookup(Lane& lane, Call& call);
void serve_forget(Lane& lane, Call& call);
void serve_batch_forget(Lane& lane, Call& call);
void serve_getattr(Lane& lane, Call& call);
void serve_statx(Lane& lane, Call& call);
void serve_setattr(Lane& lane, Call& call);
void serve_readlink(Lane& lane, Call& call);
void serve_statfs(Lane& lane, Call& call);
void serve_syncfs(Lane& lane, Call& call);
void serve_access(Lane& lane, Call& call);

// handlers_name.cc
void serve_symlink(Lane& lane, Call& call);
void serve_mknod(Lane& lane, Call& call);
void serve_mkdir(Lane& lane, Call& call);
void serve_unlink(Lane& lane, Call& call);
void serve_rmdir(Lane& lane, Call& call);
void serve_rename(Lane& lane, Call& call);
void serve_rename2(Lane& lane, Call& call);
void serve_link(Lane& lane, Call& call);
void serve_create(Lane& lane, Call& call);
void serve_tmpfile(Lane& lane, Call& call);

// handlers_file.cc
void serve_open(Lane& lane, Call& call);
void serve_read(Lane& lane, Call& call);
void serve_write(Lane& lane, Call& call);
void serve_flush(Lane& lane, Call& call);
void serve_fsync(Lane& lane, Call& call);
void serve_release(Lane& lane, Call& call);
void serve_fallocate(Lane& lane, Call& call);
void serve_lseek(Lane& lane, Call& call);
void serve_copy_file_range(Lane& lane, Call& call);
void serve_copy_file_range_64(Lane& lane, Call& call);

// handlers_directory.cc
void serve_opendir(Lane& lane, Call& call);
void serve_readdir(Lane& lane, Call& call);
void serve_readdirplus(Lane& lane, Call& call);
void serve_fsyncdir(Lane& lane, Call& call);
void serve_releasedir(Lane& lane, Call& call);

// handlers_xattr.cc
void serve_setxattr(Lane& lane, Call& call);
void serve_getxattr(Lane& lane, Call& call);
void serve_listxattr(Lane& lane, Call& call);
void serve_removexattr(Lane& lane, Call& call);

// handlers_lock.cc
void serve_getlk(Lane& lane, Call& call);
void serve_setlk(Lane& lane, Call& call);
void serve_setlkw(Lane& lane, Call& call);

} // namespace viaduct::session
