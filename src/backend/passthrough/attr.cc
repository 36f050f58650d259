// SPDX-License-Identifier: Apache-2.0
//
// Reading and changing attributes.
#include "backend/passthrough/dispatch.h"

#include <fcntl.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// A field that is to be set, as utimensat(2) wants it.
Result<timespec> stamp(bool set, bool now, const timespec& value) {
    if (now) return timespec{.tv_sec = 0, .tv_nsec = UTIME_NOW};
    if (!set) return timespec{.tv_sec = 0, .tv_nsec = UTIME_OMIT};
    // Checked here: two values beyond the range have the meanings above.
    if (value.tv_nsec < 0 || value.tv_nsec >= 1'000'000'000) return fail(EINVAL);
    return value;
}

} // namespace

AttrReply Passthrough::attr_reply(Attr attr) const noexcept {
    attr.inode = fold(attr.inode, device_of(attr));
    return {.attr = attr, .attr_valid = attr_valid_};
}

FileSystem::Async<AttrReply> Passthrough::getattr(const Caller&, NodeId id, std::optional<HandleId> handle) {
    const auto stat = [this](int fd) -> Result<AttrReply> {
        TRY(const Attr attr, attr_of(fd));
        return attr_reply(attr);
    };
    if (handle) {
        TRY(Handle* const open_file, handles_->find(*handle));
        return run(OpClass::attr, *open_file, [stat, fd = open_file->fd] { return stat(fd); });
    }
    TRY(Node* const node, nodes_->find(id));
    return run(OpClass::attr, *node, [stat, fd = node->fd] { return stat(fd); });
}

FileSystem::Async<AttrReply> Passthrough::setattr(const Caller& caller, NodeId id, const SetAttr& change) {
    if (options_.read_only) return fail(EROFS);
    TRY(Node* const node, nodes_->find(id));
    Handle* open_file = nullptr;
    if (change.has(SetAttr::handle_field)) {
        TRY(open_file, handles_->find(change.handle));
    }
    const auto handle_fd = open_file != nullptr ? std::optional{open_file->fd} : std::nullopt;
    auto call = [this, caller, fd = node->fd, type = node->type, handle_fd,
                 change](bool may_wait) -> Result<AttrReply> {
        TRY_STATUS(apply(caller, fd, type, handle_fd, change, may_wait));
        TRY(const Attr attr, attr_of(fd));
        return attr_reply(attr);
    };
    if (inline_here(OpClass::change, node->mount)) {
        auto reply = call(false);
        ended_inline(OpClass::change, node->mount);
        // EAGAIN: once more, from the start; what has been set already is set to the same again.
        if (reply || reply.error() != Errno{EAGAIN}) return reply;
    }
    Pins pins{.node = nodes_->pin(*node),
              .handle = open_file != nullptr ? handles_->pin(*open_file) : HandlePin{}};
    return away<AttrReply>(OpClass::change, node->mount, std::move(pins), [call] { return call(true); });
}

// Owner before mode: a change of owner drops set-id bits, and the mode is what the client wants in the end.
Status Passthrough::apply(const Caller& caller, int fd, std::uint32_t type, std::optional<int> handle_fd,
                          const SetAttr& change, bool may_wait) const {
    // With nothing to change it is chown(2) of neither owner nor group, which drops set-id bits all the same.
    constexpr std::uint32_t kNoChange =
        SetAttr::handle_field | SetAttr::kill_suid_sgid | SetAttr::changed_field;
    if (change.has(SetAttr::uid_field) || change.has(SetAttr::gid_field) ||
        (change.fields & ~kNoChange) == 0) {
        const uid_t uid = change.has(SetAttr::uid_field) ? change.uid : static_cast<uid_t>(-1);
        const gid_t gid = change.has(SetAttr::gid_field) ? change.gid : static_cast<gid_t>(-1);
        // The client's user 0 may keep a set-group-id bit that is no execution; of others only the group
        // counts.
        const Credentials::Dropping dropping{.wanted = caller.uid != 0, .gid = caller.gid};
        const auto give = [&] { return ::fchownat(fd, "", uid, gid, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW); };
        if (credentials_.dropping(dropping, give) != 0) return fail(errno);
    }
    if (change.has(SetAttr::mode_field)) {
        if (type == S_IFLNK) return fail(EOPNOTSUPP);
        if (::fchmodat(proc_.dir(), ProcFd::name(fd).bytes, change.mode & 07777, 0) != 0) return fail(errno);
    }
    if (change.has(SetAttr::size_field)) TRY_STATUS(set_size(caller, fd, type, handle_fd, change, may_wait));
    TRY(const timespec accessed,
        stamp(change.has(SetAttr::accessed_field), change.has(SetAttr::accessed_now), change.accessed));
    TRY(const timespec modified,
        stamp(change.has(SetAttr::modified_field), change.has(SetAttr::modified_now), change.modified));
    if (accessed.tv_nsec == UTIME_OMIT && modified.tv_nsec == UTIME_OMIT) return {};
    const timespec times[2] = {accessed, modified};
    if (::utimensat(fd, "", times, AT_EMPTY_PATH) != 0) return fail(errno);
    return {};
}

// `may_wait` false: EAGAIN where another process holds a lease that has to be broken first.
Status Passthrough::set_size(const Caller& caller, int fd, std::uint32_t type, std::optional<int> handle_fd,
                             const SetAttr& change, bool may_wait) const {
    if (change.size > static_cast<std::uint64_t>(INT64_MAX)) return fail(EFBIG);
    if (type == S_IFDIR) return fail(EISDIR);
    if (type != S_IFREG) return fail(EINVAL);
    const auto size = static_cast<off_t>(change.size);
    const Credentials::Dropping dropping{.wanted = change.has(SetAttr::kill_suid_sgid), .gid = caller.gid};
    if (handle_fd) {
        const auto cut = [&] { return ::ftruncate(*handle_fd, size); };
        if (credentials_.dropping(dropping, cut) == 0) return {};
        // A handle opened for reading only (O_RDONLY | O_TRUNC) cannot; its node can.
        if (errno != EINVAL && errno != EBADF) return fail(errno);
    }
    TRY(const Fd file, proc_.open(fd, O_WRONLY | (may_wait ? 0 : O_NONBLOCK)));
    const auto cut = [&] { return ::ftruncate(file.get(), size); };
    if (credentials_.dropping(dropping, cut) != 0) return fail(errno);
    return {};
}

// Clients check permissions themselves (default_permissions); whoever asks all the same gets the mode bits'
// word.
FileSystem::Async<void> Passthrough::access(const Caller& caller, NodeId id, std::uint32_t mask) {
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd, caller, mask, read_only = options_.read_only]() -> Status {
        TRY(const Attr attr, attr_of(fd));
        if ((mask & W_OK) != 0 && read_only) return fail(EROFS);
        std::uint32_t granted = attr.mode & 7;
        if (caller.uid == attr.uid)
            granted = (attr.mode >> 6) & 7;
        else if (caller.gid == attr.gid)
            granted = (attr.mode >> 3) & 7;
        if (caller.uid == 0)
            granted = R_OK | W_OK | (S_ISDIR(attr.mode) || (attr.mode & 0111) != 0 ? X_OK : 0);
        if ((mask & 7 & ~granted) != 0) return fail(EACCES);
        return {};
    };
    return run(OpClass::attr, *node, call);
}

} // namespace viaduct::passthrough
