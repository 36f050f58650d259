// SPDX-License-Identifier: Apache-2.0
//
// O_DIRECT: on the ring.
//
// Reads go through an aligned buffer of ours, always: pages that the kernel has pinned for a transfer are
// written by the device whatever has become of the mapping, also after we have promised the front end to
// leave its memory alone.  Writes only read guest memory; on a local mount they use it directly where the
// host's alignment allows it.  What no aligned transfer can do (the tail of a file, a write of half a block)
// goes through the page cache.
#include "backend/passthrough/dispatch.h"
#include "backend/passthrough/io_pieces.h"

#include <cstdlib>
#include <fcntl.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

constexpr std::uint64_t kAlign = 4096; // as much as any device asks for
constexpr std::uint64_t kBlock = 512;  // the least that any device takes

using Buffer = std::unique_ptr<std::byte, decltype(&std::free)>;

Buffer aligned(std::size_t bytes) {
    return Buffer{static_cast<std::byte*>(std::aligned_alloc(kAlign, bytes)), &std::free};
}

} // namespace

// In one transfer; what that leaves (the tail of the file, an interruption) comes through the page cache.
rt::Task<Result<std::size_t>> Passthrough::read_bounced(HandlePin handle, std::uint64_t offset,
                                                        Segments into) {
    const std::uint64_t begin = offset / kAlign * kAlign;
    const std::size_t skip = offset - begin;
    const std::size_t room = (skip + segments_bytes(into) + kAlign - 1) / kAlign * kAlign;
    const Buffer buffer = aligned(room);
    if (!buffer) co_return fail(ENOMEM);
    const iovec iov{.iov_base = buffer.get(), .iov_len = room};
    int bytes = 0;
    {
        WorkerState& state = states_.here();
        rt::Ring& ring = rt::Worker::current()->ring();
        const auto slot = co_await ring_slots(state, *handle).acquire();
        state.count(OpClass::read, Place::ring);
        bytes = co_await ring.readv(handle->fd, &iov, 1, begin, ring_flags(*handle));
    }
    if (bytes < 0 && bytes != -EINVAL && bytes != -EINTR) co_return fail(-bytes);
    std::size_t done = 0;
    if (bytes > 0 && static_cast<std::size_t>(bytes) > skip) {
        SegmentWriter writer{into};
        done = writer.write(buffer.get() + skip, static_cast<std::size_t>(bytes) - skip);
    }
    if (done == segments_bytes(into)) co_return done;
    auto buffered = read_buffered(std::move(handle), offset, into, done);
    co_return co_await std::move(buffered);
}

// Also tells the end of the file from a transfer that was merely short.  A direct descriptor is rare and this
// its tail, so the copy through our buffer costs little and leaves guest memory alone whatever the mount
// does.
rt::Task<Result<std::size_t>> Passthrough::read_buffered(HandlePin handle, std::uint64_t offset,
                                                         Segments into, std::size_t done) {
    const std::size_t wanted = segments_bytes(into) - done;
    const Buffer buffer = aligned((wanted + kAlign - 1) / kAlign * kAlign);
    if (!buffer) co_return fail(ENOMEM);
    auto call = [this, fd = handle->fd, at = offset + done, to = buffer.get(),
                 wanted]() -> Result<std::size_t> {
        TRY(const Fd file, proc_.open(fd, O_RDONLY));
        std::size_t moved = 0;
        while (moved < wanted) {
            const ssize_t bytes =
                ::pread(file.get(), to + moved, wanted - moved, static_cast<off_t>(at + moved));
            if (bytes < 0 && errno == EINTR && !rt::Helpers::cancelled_here()) continue;
            if (bytes < 0 && (moved == 0 || errno == EINTR)) return fail(errno);
            if (bytes <= 0) break;
            moved += static_cast<std::size_t>(bytes);
        }
        return moved;
    };
    auto task = away<std::size_t>(OpClass::read, handle->mount, Pins{}, call);
    const auto moved = co_await std::move(task);
    if (!moved) {
        if (done > 0 && moved.error() != Errno{ECANCELED}) co_return done;
        co_return fail(moved.error());
    }
    SegmentWriter writer{into};
    writer.skip(done);
    co_return done + writer.write(buffer.get(), *moved);
}

rt::Task<Result<std::size_t>> Passthrough::write_direct(HandlePin handle, std::uint64_t offset,
                                                        Segments from) {
    if (!inline_here(OpClass::write, handle->mount)) {
        auto bounced = write_bounced(std::move(handle), offset, from);
        co_return co_await std::move(bounced);
    }
    const std::size_t total = segments_bytes(from);
    std::size_t done = 0;
    {
        WorkerState& state = states_.here();
        rt::Ring& ring = rt::Worker::current()->ring();
        const auto slot = co_await ring_slots(state, *handle).acquire();
        state.count(OpClass::write, Place::ring);
        Pieces pieces;
        while (done < total) {
            const Segments rest = pieces.after(from, done);
            const int bytes =
                co_await ring.writev(handle->fd, rest.data(), static_cast<std::uint32_t>(rest.size()),
                                     offset + done, ring_flags(*handle));
            if (bytes == -EINTR) continue;
            if (bytes == -EINVAL || bytes == 0) break;
            if (bytes < 0 && done == 0) co_return fail(-bytes);
            if (bytes < 0) co_return done;
            done += static_cast<std::size_t>(bytes);
        }
    }
    if (done == total) co_return done;
    if (done == 0) {
        auto bounced = write_bounced(std::move(handle), offset, from);
        co_return co_await std::move(bounced);
    }
    auto buffered = write_buffered(std::move(handle), offset, from, done, {});
    co_return co_await std::move(buffered);
}

rt::Task<Result<std::size_t>> Passthrough::write_bounced(HandlePin handle, std::uint64_t offset,
                                                         Segments from) {
    const std::size_t total = segments_bytes(from);
    std::size_t done = 0;
    if (offset % kBlock == 0 && total % kBlock == 0 && total > 0) {
        const Buffer buffer = aligned((total + kAlign - 1) / kAlign * kAlign);
        if (!buffer) co_return fail(ENOMEM);
        SegmentReader reader{from};
        const std::size_t copied = reader.copy(buffer.get(), total);
        ASSERT(copied == total);
        const iovec iov{.iov_base = buffer.get(), .iov_len = total};
        WorkerState& state = states_.here();
        rt::Ring& ring = rt::Worker::current()->ring();
        const auto slot = co_await ring_slots(state, *handle).acquire();
        state.count(OpClass::write, Place::ring);
        const int bytes = co_await ring.writev(handle->fd, &iov, 1, offset, ring_flags(*handle));
        if (bytes < 0 && bytes != -EINVAL && bytes != -EINTR) co_return fail(-bytes);
        if (bytes > 0) done = static_cast<std::size_t>(bytes);
    }
    if (done == total) co_return done;
    auto buffered = write_buffered(std::move(handle), offset, from, done, {});
    co_return co_await std::move(buffered);
}

rt::Task<Result<std::size_t>> Passthrough::write_buffered(HandlePin handle, std::uint64_t offset,
                                                          Segments from, std::size_t done, WriteMode mode) {
    auto call = [this, fd = handle->fd, offset, from, done, mode]() -> Result<std::size_t> {
        TRY(const Fd file, proc_.open(fd, O_WRONLY));
        std::vector<iovec> rest;
        SegmentReader reader{from};
        reader.skip(done);
        reader.remaining_segments(SIZE_MAX, rest);
        const Moved moved = write_now(file.get(), offset + done, rest, mode);
        if (moved.error != 0 && done + moved.bytes == 0) return fail(moved.error);
        return done + moved.bytes;
    };
    auto task = away<std::size_t>(OpClass::write, handle->mount, Pins{}, call);
    co_return co_await std::move(task);
}

} // namespace viaduct::passthrough
