// SPDX-License-Identifier: Apache-2.0
//
// Calls on open files other than READ and WRITE, and on whole file systems.
#include "backend/passthrough/dispatch.h"

#include <algorithm>
#include <fcntl.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// A copy cannot be interrupted and keeps its helper; a short answer makes the client ask for the rest.
constexpr std::uint64_t kCopyBytesMax = 64U << 20;

} // namespace

// Closing a copy makes the file system report what went wrong so far; local ones have nothing to say.
FileSystem::Async<void> Passthrough::flush(const Caller&, HandleId id) {
    TRY(Handle* const handle, handles_->find(id));
    if (inline_here(OpClass::close, handle->mount)) return Status{};
    auto call = [fd = handle->fd]() -> Status {
        const int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
        if (copy < 0 || ::close(copy) != 0) return fail(errno);
        return {};
    };
    return away<void>(OpClass::close, handle->mount, Pins{.handle = handles_->pin(*handle)}, call);
}

FileSystem::Async<void> Passthrough::fsync(const Caller&, HandleId id, bool data_only) {
    TRY(Handle* const handle, handles_->find(id));
    return fsync_on_ring(handles_->pin(*handle), data_only);
}

FileSystem::Async<void> Passthrough::fsyncdir(const Caller& caller, HandleId id, bool data_only) {
    return fsync(caller, id, data_only);
}

rt::Task<Status> Passthrough::fsync_on_ring(HandlePin handle, bool data_only) {
    let_wait(*handle);
    WorkerState& state = states_.here();
    const auto slot = co_await ring_slots(state, *handle).acquire();
    state.count(OpClass::write, Place::ring);
    const int result = co_await rt::Worker::current()->ring().fsync(handle->fd, data_only);
    if (result < 0) co_return fail(result == -EINTR ? ECANCELED : -result);
    co_return Status{};
}

FileSystem::Async<void> Passthrough::fallocate(const Caller&, HandleId id, std::uint32_t mode,
                                               std::uint64_t offset, std::uint64_t bytes) {
    TRY(Handle* const handle, handles_->find(id));
    if (options_.read_only) return fail(EROFS);
    return fallocate_on_ring(handles_->pin(*handle), mode, offset, bytes);
}

rt::Task<Status> Passthrough::fallocate_on_ring(HandlePin handle, std::uint32_t mode, std::uint64_t offset,
                                                std::uint64_t bytes) {
    let_wait(*handle);
    WorkerState& state = states_.here();
    const auto slot = co_await ring_slots(state, *handle).acquire();
    state.count(OpClass::write, Place::ring);
    const int result =
        co_await rt::Worker::current()->ring().fallocate(handle->fd, static_cast<int>(mode), offset, bytes);
    if (result < 0) co_return fail(result == -EINTR ? ECANCELED : -result);
    co_return Status{};
}

FileSystem::Async<std::uint64_t> Passthrough::lseek(const Caller&, HandleId id, std::uint64_t offset,
                                                    std::uint32_t whence) {
    TRY(Handle* const handle, handles_->find(id));
    auto call = [fd = handle->fd, offset, whence]() -> Result<std::uint64_t> {
        const off_t position = ::lseek(fd, static_cast<off_t>(offset), static_cast<int>(whence));
        if (position < 0) return fail(errno);
        return static_cast<std::uint64_t>(position);
    };
    return run(OpClass::read, *handle, call);
}

FileSystem::Async<std::size_t> Passthrough::copy_file_range(const Caller&, HandleId from,
                                                            std::uint64_t from_offset, HandleId to,
                                                            std::uint64_t to_offset, std::uint64_t bytes,
                                                            std::uint64_t flags) {
    TRY(Handle* const source, handles_->find(from));
    TRY(Handle* const target, handles_->find(to));
    if (options_.read_only) return fail(EROFS);
    if (flags > UINT32_MAX) return fail(EINVAL);
    bytes = std::min(bytes, kCopyBytesMax);
    let_wait(*source);
    let_wait(*target);
    auto call = [from_fd = source->fd, to_fd = target->fd, from_offset, to_offset, bytes,
                 flags]() -> Result<std::size_t> {
        auto from_position = static_cast<off64_t>(from_offset);
        auto to_position = static_cast<off64_t>(to_offset);
        const ssize_t copied = ::copy_file_range(from_fd, &from_position, to_fd, &to_position, bytes,
                                                 static_cast<unsigned>(flags));
        if (copied < 0) return fail(errno);
        return static_cast<std::size_t>(copied);
    };
    Pins pins{.handle = handles_->pin(*source), .other_handle = handles_->pin(*target)};
    return away<std::size_t>(OpClass::whole, target->mount, std::move(pins), call);
}

// Asks a server on network mounts, and may have to look at the disk on others.
FileSystem::Async<FsStat> Passthrough::statfs(const Caller&, NodeId id) {
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd]() -> Result<FsStat> {
        struct statfs st{};
        if (::fstatfs(fd, &st) != 0) return fail(errno);
        return FsStat{.blocks = st.f_blocks,
                      .blocks_free = st.f_bfree,
                      .blocks_available = st.f_bavail,
                      .files = st.f_files,
                      .files_free = st.f_ffree,
                      .block_bytes = static_cast<std::uint32_t>(st.f_bsize),
                      .fragment_bytes = static_cast<std::uint32_t>(st.f_frsize),
                      .name_bytes_max = static_cast<std::uint32_t>(st.f_namelen)};
    };
    return away<FsStat>(OpClass::whole, node->mount, Pins{.node = nodes_->pin(*node)}, call);
}

FileSystem::Async<void> Passthrough::syncfs(const Caller&, NodeId id) {
    TRY(Node* const node, nodes_->find(id));
    if (node->type != S_IFDIR && node->type != S_IFREG) return fail(EINVAL);
    auto call = [this, fd = node->fd]() -> Status {
        TRY(const Fd file, proc_.open(fd, O_RDONLY | O_NONBLOCK));
        if (::syncfs(file.get()) != 0) return fail(errno);
        return {};
    };
    return away<void>(OpClass::whole, node->mount, Pins{.node = nodes_->pin(*node)}, call);
}

} // namespace viaduct::passthrough
