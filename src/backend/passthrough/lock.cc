// SPDX-License-Identifier: Apache-2.0
//
// Locks as programs of this host see them.
#include "backend/passthrough/dispatch.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

// An open file of its own: its locks are told apart from those of all others, and go when it is closed.
class OpenFileLocks final : public HostLocks {
public:
    OpenFileLocks(Fd file, LockKind kind, int access) noexcept
        : file_(std::move(file)), kind_(kind), access_(access) {}

    bool allows(LockType type) const noexcept override {
        if (kind_ == LockKind::flock || type == LockType::none) return true;
        return access_ == O_RDWR || access_ == (type == LockType::shared ? O_RDONLY : O_WRONLY);
    }

    Status set(LockType type, const LockRange& range) override {
        if (kind_ == LockKind::flock) {
            const int how = type == LockType::none ? LOCK_UN : type == LockType::shared ? LOCK_SH : LOCK_EX;
            if (::flock(file_.get(), how | LOCK_NB) != 0) return fail(errno);
            return {};
        }
        struct flock host = to_host(type, range);
        if (::fcntl(file_.get(), F_OFD_SETLK, &host) != 0) return fail(errno == EACCES ? EAGAIN : errno);
        return {};
    }

    Result<std::optional<FileLock>> query(LockType type, const LockRange& range) override {
        if (kind_ == LockKind::flock) return fail(EINVAL);
        struct flock host = to_host(type, range);
        if (::fcntl(file_.get(), F_OFD_GETLK, &host) != 0) return fail(errno);
        if (host.l_type == F_UNLCK) return std::nullopt;
        const auto first = static_cast<std::uint64_t>(host.l_start);
        const auto last =
            host.l_len == 0 ? LockRange::kEnd : first + static_cast<std::uint64_t>(host.l_len) - 1;
        return FileLock{.kind = kind_,
                        .type = host.l_type == F_RDLCK ? LockType::shared : LockType::exclusive,
                        .range = {.first = first, .last = last}};
    }

private:
    static struct flock to_host(LockType type, const LockRange& range) noexcept {
        struct flock host{};
        host.l_type = type == LockType::none ? F_UNLCK : type == LockType::shared ? F_RDLCK : F_WRLCK;
        host.l_whence = SEEK_SET;
        host.l_start = static_cast<off_t>(range.first);
        // 0: to the end, however long the file grows.
        host.l_len = range.last == LockRange::kEnd ? 0 : static_cast<off_t>(range.last - range.first + 1);
        return host;
    }

    const Fd file_;
    const LockKind kind_;
    const int access_;
};

} // namespace

Result<NodeIdentity> Passthrough::identity_of(NodeId id) {
    TRY(const Node* const node, nodes_->find(id));
    return node->identity();
}

// Opened as the client has the file open: what it may lock was decided by that.  Opening for more would be in
// the way of those who run it or hold a lease.  A server that is slow or gone would hold the worker: what
// lies on a remote mount is locked among our clients only.
Result<std::unique_ptr<HostLocks>> Passthrough::host_locks(NodeId id, HandleId handle_id, LockKind kind) {
    TRY(const Node* const node, nodes_->find(id));
    TRY(const Handle* const handle, handles_->find(handle_id));
    if (handle->has(Handle::directory) || node->type != S_IFREG) return fail(EBADF);
    if (core_->mounts.at(node->mount).remote) return nullptr;
    const int flags = ::fcntl(handle->fd, F_GETFL);
    if (flags < 0) return fail(errno);
    int access = flags & O_ACCMODE;
    Result<Fd> file = fail(EACCES);
    if (access == O_WRONLY) {
        // Another handle for reading may follow, and exclusive locks cannot move over.
        file = proc_.open(node->fd, O_RDWR | O_NONBLOCK);
        if (file) access = O_RDWR;
    }
    if (!file) file = proc_.open(node->fd, access | O_NONBLOCK);
    if (!file) return fail(ENOLCK);
    return std::make_unique<OpenFileLocks>(std::move(*file), kind, access);
}

} // namespace viaduct::passthrough
