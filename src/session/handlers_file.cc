// SPDX-License-Identifier: Apache-2.0
//
// Requests on open files.  Data goes between the client's memory and the FileSystem without a copy here.
#include "session/answer.h"
#include "session/handlers.h"

#include <algorithm>
#include <fcntl.h>
#include <limits>

namespace viaduct::session {
namespace {

// Offsets from here on are negative to the host, and -1 would mean the file's own position.
constexpr std::uint64_t kOffsetMax = std::numeric_limits<std::int64_t>::max();
// READ and WRITE move no more than this, whatever they ask for: a back end may need memory of its own for all
// of it.  A client whose pages have 64 KiB reads 256 of them at once; none asks for more.
constexpr std::size_t kTransferBytesMax = 16U << 20U;
// What one system call copies at most.
constexpr std::uint64_t kCopyBytesMax = 0x7ffff000;

std::size_t encode_read(Lane&, Call& call, const std::size_t& bytes) {
    return fuse::reply_in_place(call.raw->out(), call.unique(), bytes);
}

std::size_t encode_written(Lane&, Call& call, const std::size_t& bytes) {
    return call.reply(fuse_write_out{.size = static_cast<std::uint32_t>(bytes), .padding = 0});
}

std::size_t encode_copied(Lane&, Call& call, const std::size_t& bytes) {
    return call.reply(fuse_copy_file_range_out{.bytes_copied = bytes});
}

std::size_t encode_offset(Lane&, Call& call, const std::uint64_t& offset) {
    return call.reply(fuse_lseek_out{.offset = offset});
}

template <auto Encode> void copy_range(Lane& lane, Call& call, std::uint64_t bytes_max) {
    const auto& in = call.in<fuse_copy_file_range_in>();
    if (in.off_in > kOffsetMax || in.off_out > kOffsetMax) return lane.refuse(call, EINVAL);
    finish<Encode>(lane, call,
                   lane.fs.copy_file_range(call.caller, fs::HandleId{in.fh_in}, in.off_in,
                                           fs::HandleId{in.fh_out}, in.off_out, std::min(in.len, bytes_max),
                                           in.flags));
}

} // namespace

void serve_open(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_open_in>();
    const bool kill = (in.open_flags & FUSE_OPEN_KILL_SUIDGID) != 0;
    finish<encode_opened>(lane, call, lane.fs.open(call.caller, call.node(), in.flags, kill));
}

void serve_read(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_read_in>();
    if (in.offset > kOffsetMax) [[unlikely]]
        return lane.refuse(call, EINVAL);
    // As much as was asked for and there is room for: a client takes a shorter answer for the end of the
    // file.
    const std::size_t bytes_max = std::min<std::size_t>(in.size, kTransferBytesMax);
    const Segments into = slice(call.raw->out(), fuse::kOutHeaderBytes, bytes_max, call.segments);
    finish<encode_read>(lane, call, lane.fs.read(call.caller, fs::HandleId{in.fh}, in.offset, into));
}

void serve_write(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_write_in>();
    if (in.offset > kOffsetMax) [[unlikely]]
        return lane.refuse(call, EINVAL);
    const std::size_t bytes_max = std::min<std::size_t>(in.size, kTransferBytesMax);
    const Segments from = slice(call.raw->in(), call.request.rest_offset(), bytes_max, call.segments);
    const fs::WriteOptions options{.cached = (in.write_flags & FUSE_WRITE_CACHE) != 0,
                                   .kill_suid_sgid = (in.write_flags & FUSE_WRITE_KILL_SUIDGID) != 0,
                                   .append = (in.flags & O_APPEND) != 0};
    finish<encode_written>(lane, call,
                           lane.fs.write(call.caller, fs::HandleId{in.fh}, in.offset, from, options));
}

void serve_flush(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_flush_in>();
    // A process has closed a descriptor of the file.
    if ((lane.negotiated.flags & FUSE_POSIX_LOCKS) != 0)
        lane.fs.drop_locks(call.node(), fs::LockKind::posix, in.lock_owner);
    finish<encode_done>(lane, call, lane.fs.flush(call.caller, fs::HandleId{in.fh}));
}

void serve_fsync(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_fsync_in>();
    const bool data_only = (in.fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
    finish<encode_done>(lane, call, lane.fs.fsync(call.caller, fs::HandleId{in.fh}, data_only));
}

void serve_release(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_release_in>();
    // Locks of an open file are not taken back by FLUSH: they belong to no process.
    if ((lane.negotiated.flags & (FUSE_POSIX_LOCKS | FUSE_FLOCK_LOCKS)) != 0)
        lane.fs.drop_handle_locks(call.node(), fs::HandleId{in.fh});
    if ((lane.negotiated.flags & FUSE_FLOCK_LOCKS) != 0 &&
        (in.release_flags & FUSE_RELEASE_FLOCK_UNLOCK) != 0)
        lane.fs.drop_locks(call.node(), fs::LockKind::flock, in.lock_owner);
    finish<encode_done>(lane, call, lane.fs.release(fs::HandleId{in.fh}));
}

void serve_fallocate(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_fallocate_in>();
    if (in.offset > kOffsetMax || in.length > kOffsetMax) return lane.refuse(call, EINVAL);
    finish<encode_done>(lane, call,
                        lane.fs.fallocate(call.caller, fs::HandleId{in.fh}, in.mode, in.offset, in.length));
}

void serve_lseek(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_lseek_in>();
    finish<encode_offset>(lane, call, lane.fs.lseek(call.caller, fs::HandleId{in.fh}, in.offset, in.whence));
}

// The reply's count has 32 bits.
void serve_copy_file_range(Lane& lane, Call& call) {
    copy_range<encode_written>(lane, call, kCopyBytesMax);
}

void serve_copy_file_range_64(Lane& lane, Call& call) {
    copy_range<encode_copied>(lane, call, kOffsetMax);
}

} // namespace viaduct::session
