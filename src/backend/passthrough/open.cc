// SPDX-License-Identifier: Apache-2.0
//
// Opening and releasing.
#include "backend/passthrough/dispatch.h"

#include <fcntl.h>
#include <unistd.h>

namespace viaduct::passthrough {

// Decided on what the O_PATH descriptor stands for, before anything is opened: pipes, sockets and devices
// belong to the client's kernel, and opening the host's could block or act.
Status openable(std::uint32_t mode) noexcept {
    switch (mode & S_IFMT) {
    case S_IFREG:
        return {};
    case S_IFDIR:
        return fail(EISDIR);
    case S_IFLNK:
        return fail(ELOOP);
    default:
        return fail(ENXIO);
    }
}

// What of the client's flags counts on the host.  O_APPEND does not: pages written back by the client's
// kernel come through any handle and have their place.
Result<int> Passthrough::host_flags(std::uint32_t flags) const noexcept {
    constexpr int kKept = O_ACCMODE | O_TRUNC | O_SYNC | O_DSYNC | O_NOATIME | O_DIRECT;
    int host = static_cast<int>(flags) & kKept;
    if ((host & O_ACCMODE) == O_ACCMODE) return fail(EINVAL);
    if (!options_.allow_direct_io) host &= ~O_DIRECT;
    if (options_.read_only && ((host & O_ACCMODE) != O_RDONLY || (host & O_TRUNC) != 0)) return fail(EROFS);
    return host;
}

// A client that caches writes reads the rest of a page through a file that was opened for writing alone.
int Passthrough::readable_too(int flags) const noexcept {
    return options_.writeback && (flags & O_ACCMODE) == O_WRONLY ? (flags & ~O_ACCMODE) | O_RDWR : flags;
}

// `may_wait` false: EAGAIN where another process holds a lease that has to be broken first.
Result<Passthrough::OpenedFile> Passthrough::open_file(int fd, int flags, Credentials::Dropping dropping,
                                                       bool may_wait) const {
    const int asked = flags & O_ACCMODE;
    flags = readable_too(flags);
    dropping.wanted = dropping.wanted && (flags & O_TRUNC) != 0;
    const int waiting = may_wait ? 0 : O_NONBLOCK;
    const auto attempt = [&] { return proc_.open(fd, flags | waiting); };
    auto opened = credentials_.dropping(dropping, attempt);
    if (!opened && opened.error() == Errno{EPERM} && (flags & O_NOATIME) != 0) {
        flags &= ~O_NOATIME; // the file is not ours; the client's kernel has allowed it to its owner
        opened = credentials_.dropping(dropping, attempt);
    }
    if (!opened && opened.error() == Errno{EINVAL} && (flags & O_DIRECT) != 0) {
        flags &= ~O_DIRECT; // this file system has none
        opened = credentials_.dropping(dropping, attempt);
    }
    const bool uncached =
        !opened && opened.error() == Errno{EACCES} && (flags & O_ACCMODE) != asked; // we may not read it
    if (uncached) {
        flags = (flags & ~O_ACCMODE) | asked;
        opened = credentials_.dropping(dropping, attempt);
    }
    if (!opened) return fail(opened.error());
    OpenedFile file{.fd = std::move(*opened),
                    .direct = (flags & O_DIRECT) != 0,
                    .nonblocking = !may_wait,
                    .uncached = uncached};
    // All that is done with a direct descriptor waits.
    if (file.direct && std::exchange(file.nonblocking, false))
        ::fcntl(file.fd.get(), F_SETFL, flags & (O_DIRECT | O_NOATIME));
    return file;
}

// Before the ring or a helper uses the handle: a ring gives up at once on a descriptor with O_NONBLOCK.  Most
// files are read and closed without waiting, and keep it: taking it off is a system call.
void Passthrough::let_wait(Handle& handle) noexcept {
    // Two workers may do it at once, to the same end.  Acquire: who sees 0 sees the flag gone.
    if (handle.nonblocking.load(std::memory_order_acquire) == 0) return;
    const int flags = ::fcntl(handle.fd, F_GETFL);
    ::fcntl(handle.fd, F_SETFL, flags & ~O_NONBLOCK);
    handle.nonblocking.store(0, std::memory_order_release);
}

HandleTable::Facts Passthrough::handle_facts(const Node& node, std::uint16_t flags) const noexcept {
    return {.mount_id = node.mount_id,
            .node = nodes_->index_of(node),
            .device = node.device,
            .mount = node.mount,
            .flags = flags};
}

Result<Opened> Passthrough::handle_for(OpenedFile file, const Node& node, std::uint32_t flags) {
    const auto handle_flags = static_cast<std::uint16_t>((file.direct ? Handle::direct : 0) |
                                                         ((flags & O_APPEND) != 0 ? Handle::append : 0));
    Opened opened;
    auto facts = handle_facts(node, handle_flags);
    facts.nonblocking = file.nonblocking;
    TRY(opened.handle, handles_->insert(std::move(file.fd), facts));
    switch (options_.cache) {
    case CachePolicy::never:
    case CachePolicy::metadata:
        opened.direct_io = true;
        opened.parallel_direct_writes = true; // the host's file system orders writes itself
        break;
    case CachePolicy::automatic:
        opened.direct_io = file.uncached;
        break;
    case CachePolicy::always:
        opened.direct_io = file.uncached;
        opened.keep_cache = !file.uncached;
        break;
    }
    return opened;
}

FileSystem::Async<Opened> Passthrough::open(const Caller& caller, NodeId id, std::uint32_t flags,
                                            bool kill_suid_sgid) {
    TRY(Node* const node, nodes_->find(id));
    TRY_STATUS(openable(node->type));
    TRY(const int host, host_flags(flags));
    const Credentials::Dropping dropping{.wanted = kill_suid_sgid, .gid = caller.gid};
    if (inline_here(OpClass::open, node->mount)) {
        auto file = open_file(node->fd, host, dropping, false);
        ended_inline(OpClass::open, node->mount);
        if (file) return handle_for(std::move(*file), *node, flags);
        if (file.error() != Errno{EAGAIN}) return fail(file.error());
    }
    return open_away(nodes_->pin(*node), flags, dropping);
}

rt::Task<Result<Opened>> Passthrough::open_away(NodePin node, std::uint32_t flags,
                                                Credentials::Dropping dropping) {
    CO_TRY(const int host, host_flags(flags));
    auto call = [this, fd = node->fd, host, dropping] { return open_file(fd, host, dropping, true); };
    auto task = away<OpenedFile>(OpClass::open, node->mount, Pins{}, call);
    auto file = co_await std::move(task);
    if (!file) co_return fail(file.error());
    co_return handle_for(std::move(*file), *node, flags);
}

// The client gets the node and the handle, or neither.
Result<Created> Passthrough::created(const Dir& dir, Made made, std::uint32_t flags) {
    Result<Created> result;
    TRY(result->entry, enter(dir, std::move(made.found)));
    // Known to the client already, it may have gone meanwhile: a FORGET on another queue takes our count too.
    const auto node = nodes_->find(result->entry.node);
    if (!node) return fail(node.error());
    auto opened = handle_for(std::move(made.file), **node, flags);
    if (!opened) {
        nodes_->forget(result->entry.node, 1);
        return fail(opened.error());
    }
    result->opened = *opened;
    return result;
}

Result<Opened> Passthrough::dir_handle_for(Fd fd, const Node& node) {
    Opened opened;
    TRY(opened.handle, handles_->insert(std::move(fd), handle_facts(node, Handle::directory)));
    opened.cache_dir = options_.cache == CachePolicy::metadata || options_.cache == CachePolicy::always;
    opened.keep_cache = opened.cache_dir;
    return opened;
}

namespace {

Result<Fd> open_dir(int fd) {
    const int opened = ::openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (opened < 0) return fail(errno == EMFILE ? ENFILE : errno);
    return Fd{opened};
}

} // namespace

FileSystem::Async<Opened> Passthrough::opendir(const Caller&, NodeId id) {
    TRY(Node* const node, nodes_->find(id));
    if (node->type != S_IFDIR) return fail(ENOTDIR);
    if (!inline_here(OpClass::open, node->mount)) return opendir_away(nodes_->pin(*node));
    auto fd = open_dir(node->fd);
    ended_inline(OpClass::open, node->mount);
    if (!fd) return fail(fd.error());
    return dir_handle_for(std::move(*fd), *node);
}

rt::Task<Result<Opened>> Passthrough::opendir_away(NodePin node) {
    auto call = [fd = node->fd] { return open_dir(fd); };
    auto task = away<Fd>(OpClass::open, node->mount, Pins{}, call);
    auto fd = co_await std::move(task);
    if (!fd) co_return fail(fd.error());
    co_return dir_handle_for(std::move(*fd), *node);
}

FileSystem::Async<void> Passthrough::release(HandleId handle) {
    return handles_->remove(handle);
}

FileSystem::Async<void> Passthrough::releasedir(HandleId handle) {
    return handles_->remove(handle);
}

} // namespace viaduct::passthrough
