// SPDX-License-Identifier: Apache-2.0
//
// READ and WRITE between guest memory and the page cache: with no copy of ours on local mounts, and through a
// buffer of ours where the server of a mount may hang.
#include "backend/passthrough/dispatch.h"
#include "backend/passthrough/io_pieces.h"

#include <sys/uio.h>

namespace viaduct::passthrough {

// What is in memory is read here and now.  A part is continued, never taken for the whole: to the client a
// short answer means the end of the file.
Passthrough::Moved Passthrough::read_now(const Handle& handle, std::uint64_t offset, Segments into) noexcept {
    Mount& mount = core_->mounts.at(handle.mount);
    const bool may_wait =
        options_.inline_mode == InlineMode::always || mount.nowait_refused.load(std::memory_order_relaxed);
    int flags = may_wait ? 0 : RWF_NOWAIT;
    const std::size_t total = segments_bytes(into);
    Moved moved;
    Pieces pieces;
    while (moved.bytes < total) {
        const Segments rest = pieces.after(into, moved.bytes);
        const auto position = static_cast<off_t>(offset + moved.bytes);
        const ssize_t bytes =
            ::preadv2(handle.fd, rest.data(), static_cast<int>(rest.size()), position, flags);
        if (bytes > 0) {
            moved.bytes += static_cast<std::size_t>(bytes);
        } else if (bytes == 0) {
            break;
        } else if (errno == EAGAIN && flags != 0) {
            moved.would_wait = true;
            break;
        } else if (errno == EOPNOTSUPP && flags != 0) {
            mount.nowait_refused.store(true, std::memory_order_relaxed);
            flags = 0;
        } else if (errno != EINTR) {
            moved.error = errno;
            break;
        }
    }
    return moved;
}

FileSystem::Async<std::size_t> Passthrough::read(const Caller&, HandleId id, std::uint64_t offset,
                                                 Segments into) {
    TRY(Handle* const handle, handles_->find(id));
    if (offset > static_cast<std::uint64_t>(INT64_MAX)) return fail(EINVAL);
    if (core_->mounts.at(handle->mount).remote) return read_remote(handles_->pin(*handle), offset, into);
    if (handle->has(Handle::direct)) return read_bounced(handles_->pin(*handle), offset, into);
    std::size_t done = 0;
    if (inline_here(OpClass::read, handle->mount)) {
        const Moved moved = read_now(*handle, offset, into);
        ended_inline(OpClass::read, handle->mount);
        if (!moved.would_wait) {
            if (moved.error != 0 && moved.bytes == 0) return fail(moved.error);
            return moved.bytes;
        }
        done = moved.bytes;
    }
    return read_on_ring(handles_->pin(*handle), offset, into, done);
}

rt::Task<Result<std::size_t>> Passthrough::read_on_ring(HandlePin handle, std::uint64_t offset, Segments into,
                                                        std::size_t done) {
    let_wait(*handle);
    WorkerState& state = states_.here();
    rt::Ring& ring = rt::Worker::current()->ring();
    const auto slot = co_await ring_slots(state, *handle).acquire();
    state.count(OpClass::read, Place::ring);
    const std::uint64_t began = monotonic_ns();
    const std::size_t total = segments_bytes(into);
    Pieces pieces;
    while (done < total) {
        const Segments rest = pieces.after(into, done);
        const int bytes =
            co_await ring.readv(handle->fd, rest.data(), static_cast<std::uint32_t>(rest.size()),
                                offset + done, ring_flags(*handle));
        if (bytes == -EINTR) continue;
        if (bytes < 0 && (done == 0 || bytes == -ECANCELED)) co_return fail(-bytes);
        if (bytes <= 0) break;
        done += static_cast<std::size_t>(bytes);
    }
    core_->mounts.ran_away(handle->mount, OpClass::read, {.ns = monotonic_ns() - began});
    co_return done;
}

// A server that hangs may answer after the client has been told that its memory is left alone, and whether
// its file system pins the pages it fills cannot be known from here (FUSE servers decide it file by file). So
// the data lands in memory of ours first.
rt::Task<Result<std::size_t>> Passthrough::read_remote(HandlePin handle, std::uint64_t offset,
                                                       Segments into) {
    if (handle->has(Handle::direct)) {
        auto bounced = read_bounced(std::move(handle), offset, into);
        co_return co_await std::move(bounced);
    }
    WorkerState& state = states_.here();
    rt::Ring& ring = rt::Worker::current()->ring();
    const auto slot = co_await ring_slots(state, *handle).acquire();
    state.count(OpClass::read, Place::ring);
    const std::size_t total = segments_bytes(into);
    const auto buffer = std::make_unique_for_overwrite<std::byte[]>(total);
    std::size_t done = 0;
    while (done < total) {
        const iovec rest{.iov_base = buffer.get() + done, .iov_len = total - done};
        const int bytes = co_await ring.readv(handle->fd, &rest, 1, offset + done, rt::kMayBlock);
        if (bytes == -EINTR) continue;
        if (bytes < 0 && (done == 0 || bytes == -ECANCELED)) co_return fail(-bytes);
        if (bytes <= 0) break;
        done += static_cast<std::size_t>(bytes);
    }
    SegmentWriter writer{into};
    co_return writer.write(buffer.get(), done);
}

Passthrough::Moved Passthrough::write_now(int fd, std::uint64_t offset, Segments from,
                                          WriteMode mode) const noexcept {
    const std::size_t total = segments_bytes(from);
    Moved moved;
    Pieces pieces;
    const auto step = [&] {
        const Segments rest = pieces.after(from, moved.bytes);
        const auto position = static_cast<off_t>(offset + moved.bytes);
        return ::pwritev2(fd, rest.data(), static_cast<int>(rest.size()), position,
                          mode.append ? RWF_APPEND : 0);
    };
    while (moved.bytes < total) {
        const ssize_t bytes = credentials_.dropping(mode.dropping, step);
        if (bytes > 0) {
            moved.bytes += static_cast<std::size_t>(bytes);
        } else if (bytes == 0 || errno != EINTR || rt::Helpers::cancelled_here()) {
            moved.error = bytes == 0 ? EIO : errno;
            break;
        }
    }
    return moved;
}

namespace {

// What was written counts; the error comes back with the next write.
Result<std::size_t> outcome(std::size_t bytes, int error) {
    if (error != 0 && bytes == 0) return fail(error);
    return bytes;
}

} // namespace

FileSystem::Async<std::size_t> Passthrough::write(const Caller& caller, HandleId id, std::uint64_t offset,
                                                  Segments from, WriteOptions options) {
    TRY(Handle* const handle, handles_->find(id));
    if (options_.read_only) return fail(EROFS);
    if (offset > static_cast<std::uint64_t>(INT64_MAX)) return fail(EINVAL);
    // A page that the client's kernel writes back has its place; a program's append goes to the end of the
    // file as it is now, which a process on the host may have moved.
    const WriteMode mode{.append = !options.cached && options.append.value_or(handle->has(Handle::append)),
                         .dropping = {.wanted = options.kill_suid_sgid, .gid = caller.gid}};
    if (handle->has(Handle::direct)) {
        if (mode.append || mode.dropping.wanted)
            return write_buffered(handles_->pin(*handle), offset, from, 0, mode);
        return write_direct(handles_->pin(*handle), offset, from);
    }
    if (inline_here(OpClass::write, handle->mount)) {
        const Moved moved = write_now(handle->fd, offset, from, mode);
        ended_inline(OpClass::write, handle->mount);
        return outcome(moved.bytes, moved.error);
    }
    // Capabilities are the thread's that makes the call, so a ring cannot leave one out.
    if (mode.dropping.wanted) return write_on_helper(handles_->pin(*handle), offset, from, mode);
    return write_on_ring(handles_->pin(*handle), offset, from, mode);
}

rt::Task<Result<std::size_t>> Passthrough::write_on_ring(HandlePin handle, std::uint64_t offset,
                                                         Segments from, WriteMode mode) {
    let_wait(*handle);
    WorkerState& state = states_.here();
    rt::Ring& ring = rt::Worker::current()->ring();
    const auto slot = co_await ring_slots(state, *handle).acquire();
    state.count(OpClass::write, Place::ring);
    const int flags = ring_flags(*handle) | (mode.append ? RWF_APPEND : 0);
    const std::uint64_t began = monotonic_ns();
    const std::size_t total = segments_bytes(from);
    std::size_t done = 0;
    int error = 0;
    Pieces pieces;
    while (done < total) {
        const Segments rest = pieces.after(from, done);
        const int bytes = co_await ring.writev(handle->fd, rest.data(),
                                               static_cast<std::uint32_t>(rest.size()), offset + done, flags);
        if (bytes == -EINTR) continue;
        if (bytes <= 0) {
            error = bytes == 0 ? EIO : -bytes;
            break;
        }
        done += static_cast<std::size_t>(bytes);
    }
    core_->mounts.ran_away(handle->mount, OpClass::write, {.ns = monotonic_ns() - began});
    co_return outcome(done, error);
}

rt::Task<Result<std::size_t>> Passthrough::write_on_helper(HandlePin handle, std::uint64_t offset,
                                                           Segments from, WriteMode mode) {
    let_wait(*handle);
    auto call = [this, fd = handle->fd, offset, from, mode] {
        const Moved moved = write_now(fd, offset, from, mode);
        return outcome(moved.bytes, moved.error);
    };
    auto task = away<std::size_t>(OpClass::write, handle->mount, Pins{}, call);
    co_return co_await std::move(task);
}

} // namespace viaduct::passthrough
