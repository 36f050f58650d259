// SPDX-License-Identifier: Apache-2.0
//
// Making, moving and removing names.
#include "backend/passthrough/dispatch.h"

#include <fcntl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

namespace viaduct::passthrough {

Result<Labels::Making> Passthrough::labelling(const Caller& caller) const {
    if (caller.label != nullptr) TRY_STATUS(xattr_usable(options_, caller.label->name, true));
    return labels_.begin(caller.label);
}

// What cannot be labelled is not there.  `name` is nullptr where it has none.
Status Passthrough::label(const Labels::Making& labelling, const Dir& dir, const char* name,
                          const Found& made) const {
    auto labelled = labelling.finish(made.fd.get());
    if (!labelled && name != nullptr) ::unlinkat(dir.fd, name, S_ISDIR(made.attr.mode) ? AT_REMOVEDIR : 0);
    return labelled;
}

FileSystem::Async<Entry> Passthrough::symlink(const Caller& caller, NodeId parent, const Name& name,
                                              std::string target) {
    auto make = [target = std::move(target)](int dir, const char* child) {
        return ::symlinkat(target.c_str(), dir, child);
    };
    return make_entry(caller, parent, name, {}, std::move(make));
}

FileSystem::Async<Entry> Passthrough::mknod(const Caller& caller, NodeId parent, const Name& name,
                                            std::uint32_t mode, std::uint32_t device, std::uint32_t umask) {
    // FUSE's 32-bit form of a device number.
    const dev_t number = ::makedev((device & 0xfff00) >> 8, (device & 0xff) | ((device >> 12) & 0xfff00));
    auto make = [mode, number](int dir, const char* child) { return ::mknodat(dir, child, mode, number); };
    return make_entry(caller, parent, name, {.umask = umask, .mode = mode}, make);
}

FileSystem::Async<Entry> Passthrough::mkdir(const Caller& caller, NodeId parent, const Name& name,
                                            std::uint32_t mode, std::uint32_t umask) {
    auto make = [mode](int dir, const char* child) { return ::mkdirat(dir, child, mode & 07777); };
    return make_entry(caller, parent, name, {.umask = umask, .mode = mode}, make);
}

FileSystem::Async<Entry> Passthrough::link(const Caller&, NodeId id, NodeId new_parent,
                                           const Name& new_name) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const node, nodes_->find(id));
    TRY(Node* const parent, nodes_->find(new_parent));
    auto call = [this, fd = node->fd, dir = Dir{*parent}, new_name]() -> Result<Found> {
        // Through /proc, as AT_EMPTY_PATH asks for a capability; a symbolic link is linked itself.
        const auto from = ProcFd::name(fd);
        if (::linkat(proc_.dir(), from.bytes, dir.fd, new_name.c_str(), AT_SYMLINK_FOLLOW) != 0)
            return fail(blame(dir.fd, errno));
        auto found = find_child(dir, new_name.c_str(), Crossing::refused);
        if (!found && found.error() == Errno{EXDEV}) return fail(ESTALE);
        return found;
    };
    return run_entry(OpClass::change, *parent, node, std::move(call));
}

FileSystem::Async<void> Passthrough::unlink(const Caller&, NodeId parent, const Name& name) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const dir, nodes_->find(parent));
    auto call = [fd = dir->fd, name]() -> Status {
        if (::unlinkat(fd, name.c_str(), 0) != 0) return fail(blame(fd, errno));
        return {};
    };
    return run(OpClass::change, *dir, std::move(call));
}

FileSystem::Async<void> Passthrough::rmdir(const Caller&, NodeId parent, const Name& name) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const dir, nodes_->find(parent));
    auto call = [fd = dir->fd, name]() -> Status {
        if (::unlinkat(fd, name.c_str(), AT_REMOVEDIR) != 0) return fail(blame(fd, errno));
        return {};
    };
    return run(OpClass::change, *dir, std::move(call));
}

FileSystem::Async<void> Passthrough::rename(const Caller&, NodeId parent, const Name& name, NodeId new_parent,
                                            const Name& new_name, std::uint32_t flags) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const from, nodes_->find(parent));
    TRY(Node* const to, nodes_->find(new_parent));
    auto call = [from_fd = from->fd, to_fd = to->fd, name, new_name, flags]() -> Status {
        if (::renameat2(from_fd, name.c_str(), to_fd, new_name.c_str(), flags) == 0) return {};
        const int error = errno;
        if (error != ENOENT) return fail(error);
        return fail(missing_in(from_fd) == ESTALE ? ESTALE : missing_in(to_fd));
    };
    return run(OpClass::change, *from, *to, std::move(call));
}

FileSystem::Async<Created> Passthrough::create(const Caller& caller, NodeId parent, const Name& name,
                                               std::uint32_t flags, std::uint32_t mode, std::uint32_t umask,
                                               bool kill_suid_sgid) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const node, nodes_->find(parent));
    TRY(const int host, host_flags(flags));
    auto call = [this, caller, umask, mode, flags, host, dir = Dir{*node}, name,
                 kill_suid_sgid](bool may_wait) -> Result<Made> {
        // The mode limits later opens only: a new file is open for whatever was asked.
        const int create_flags =
            (readable_too(host) & ~O_TRUNC) | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY;
        const auto step = [&] { return ::openat(dir.fd, name.c_str(), create_flags, mode & 07777); };
        Made made;
        TRY(const auto labelled, labelling(caller));
        const int fd = credentials_.as(caller, {.umask = umask, .mode = mode}, step);
        if (fd >= 0) {
            made.file = {.fd = Fd{fd}, .direct = (host & O_DIRECT) != 0};
            // The node is what was made, whatever has become of the name.
            TRY(made.found.fd, proc_.open_path(fd));
            TRY_STATUS(stat_found(made.found));
            made.found.mount = dir.mount;
            TRY_STATUS(label(labelled, dir, name.c_str(), made.found));
            return made;
        }
        if (fd == -EMFILE) return fail(ENFILE);
        if (fd != -EEXIST || (flags & O_EXCL) != 0) return fail(blame(dir.fd, -fd));
        TRY(made.found, find_child(dir, name.c_str(), Crossing::refused));
        TRY_STATUS(openable(made.found.attr.mode));
        TRY(made.file,
            open_file(made.found.fd.get(), host, {.wanted = kill_suid_sgid, .gid = caller.gid}, may_wait));
        return made;
    };
    return run_made(*node, flags, std::move(call));
}

FileSystem::Async<Created> Passthrough::tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags,
                                                std::uint32_t mode, std::uint32_t umask) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const node, nodes_->find(parent));
    TRY(const int host, host_flags(flags));
    auto call = [this, caller, umask, mode, flags, host, dir = Dir{*node}](bool) -> Result<Made> {
        const int create_flags = (readable_too(host) & ~O_TRUNC) | O_TMPFILE |
                                 (static_cast<int>(flags) & O_EXCL) | O_CLOEXEC | O_NOCTTY;
        const auto step = [&] { return ::openat(dir.fd, ".", create_flags, mode & 07777); };
        TRY(const auto labelled, labelling(caller));
        const int fd = credentials_.as(caller, {.umask = umask, .mode = mode}, step);
        if (fd == -EMFILE) return fail(ENFILE);
        if (fd < 0) return fail(blame(dir.fd, -fd));
        Made made;
        made.file = {.fd = Fd{fd}, .direct = (host & O_DIRECT) != 0};
        TRY(made.found.fd, proc_.open_path(fd));
        TRY_STATUS(stat_found(made.found));
        made.found.mount = dir.mount;
        TRY_STATUS(label(labelled, dir, nullptr, made.found));
        return made;
    };
    return run_made(*node, flags, std::move(call));
}

} // namespace viaduct::passthrough
