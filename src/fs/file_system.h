// SPDX-License-Identifier: Apache-2.0
//
// FileSystem: what answers requests.  Back ends and layers implement it; sessions call it.
//
// Calls come from any worker, several at a time; a call stays on the worker that made it.  A call that can
// finish at once does so and returns a ready Async; one that must wait returns a Task.  References and spans
// in arguments outlive the returned Async; everything else comes by value.  Errors are the errno the client
// sees.
#pragma once

#include "base/segments.h"
#include "fs/locks.h"
#include "fs/types.h"
#include "rt/async.h"

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::fs {

// Takes directory entries until its room is used up.
class DirentSink {
public:
    struct Dirent {
        std::string_view name;
        std::uint64_t inode = 0;
        std::uint64_t next_offset = 0; // where to go on after this entry
        std::uint32_t type = 0;        // DT_*
    };
    // false: no room; nothing was taken.  `entry` is for readdirplus: nullptr when the client gets no lookup
    // count with this entry ("." and "..", or one whose lookup failed).
    virtual bool add(const Dirent& dirent, const Entry* entry) = 0;
    // Is there room for an entry with a name of that many bytes?
    virtual bool has_room(std::size_t name_bytes) const = 0;

protected:
    ~DirentSink() = default;
};

class FileSystem {
public:
    template <class T> using Async = rt::Async<T>;

    virtual ~FileSystem() = default;

    // ENOENT: no such name.  A node that is gone on the host gives ESTALE, never ENOENT.
    virtual Async<Entry> lookup(const Caller& caller, NodeId parent, const Name& name) = 0;
    // Gives back `count` lookup counts; more than are held count as all.  Unknown nodes are ignored.
    virtual void forget(NodeId node, std::uint64_t count) = 0;

    virtual Async<AttrReply> getattr(const Caller& caller, NodeId node, std::optional<HandleId> handle) = 0;
    virtual Async<AttrReply> setattr(const Caller& caller, NodeId node, const SetAttr& change) = 0;
    virtual Async<std::string> readlink(const Caller& caller, NodeId node) = 0;

    virtual Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name,
                                 std::string target) = 0;
    virtual Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                               std::uint32_t device, std::uint32_t umask) = 0;
    virtual Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                               std::uint32_t umask) = 0;
    virtual Async<void> unlink(const Caller& caller, NodeId parent, const Name& name) = 0;
    virtual Async<void> rmdir(const Caller& caller, NodeId parent, const Name& name) = 0;
    // `flags`: RENAME_* of renameat2(2).
    virtual Async<void> rename(const Caller& caller, NodeId parent, const Name& name, NodeId new_parent,
                               const Name& new_name, std::uint32_t flags) = 0;
    virtual Async<Entry> link(const Caller& caller, NodeId node, NodeId new_parent, const Name& new_name) = 0;

    // `flags`: O_* of open(2).  ENXIO: neither a regular file nor a directory; EISDIR: a directory.
    virtual Async<Opened> open(const Caller& caller, NodeId node, std::uint32_t flags,
                               bool kill_suid_sgid) = 0;
    virtual Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                                  std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) = 0;
    // A nameless file in `parent` (O_TMPFILE).  EOPNOTSUPP where the host's file system has none.
    virtual Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags,
                                   std::uint32_t mode, std::uint32_t umask) = 0;
    // Fills `into` from `offset`; fewer bytes than room only at the end of the file.
    virtual Async<std::size_t> read(const Caller& caller, HandleId handle, std::uint64_t offset,
                                    Segments into) = 0;
    virtual Async<std::size_t> write(const Caller& caller, HandleId handle, std::uint64_t offset,
                                     Segments from, WriteOptions options) = 0;
    virtual Async<void> flush(const Caller& caller, HandleId handle) = 0;
    virtual Async<void> fsync(const Caller& caller, HandleId handle, bool data_only) = 0;
    virtual Async<void> release(HandleId handle) = 0;
    virtual Async<void> fallocate(const Caller& caller, HandleId handle, std::uint32_t mode,
                                  std::uint64_t offset, std::uint64_t bytes) = 0;
    // `whence`: SEEK_DATA or SEEK_HOLE, and the plain three.
    virtual Async<std::uint64_t> lseek(const Caller& caller, HandleId handle, std::uint64_t offset,
                                       std::uint32_t whence) = 0;
    virtual Async<std::size_t> copy_file_range(const Caller& caller, HandleId from, std::uint64_t from_offset,
                                               HandleId to, std::uint64_t to_offset, std::uint64_t bytes,
                                               std::uint64_t flags) = 0;

    virtual Async<Opened> opendir(const Caller& caller, NodeId node) = 0;
    // Puts entries from `offset` (0, or a next_offset seen before) into `sink` until it is full.
    // With `plus` each entry is looked up too; lookups that the sink does not take are undone.
    virtual Async<void> readdir(const Caller& caller, HandleId handle, std::uint64_t offset, bool plus,
                                DirentSink& sink) = 0;
    virtual Async<void> fsyncdir(const Caller& caller, HandleId handle, bool data_only) = 0;
    virtual Async<void> releasedir(HandleId handle) = 0;

    virtual Async<FsStat> statfs(const Caller& caller, NodeId node) = 0;
    virtual Async<void> syncfs(const Caller& caller, NodeId node) = 0;
    virtual Async<void> access(const Caller& caller, NodeId node, std::uint32_t mask) = 0;

    // EOPNOTSUPP where extended attributes are off.
    virtual Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                                 std::span<const std::byte> value, std::uint32_t flags) = 0;
    // The value (list) when it fits `into`, whose size may be 0 to ask for the length; ERANGE: it does not
    // fit.
    virtual Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                        std::span<std::byte> into) = 0;
    virtual Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) = 0;
    virtual Async<void> removexattr(const Caller& caller, NodeId node, std::string name) = 0;

    // Locks of the client.  ENOSYS: none are kept for it here, it keeps them itself.
    // What would be in the way of `wanted`; nullopt: nothing.
    virtual Result<std::optional<FileLock>> query_lock([[maybe_unused]] NodeId node,
                                                       [[maybe_unused]] HandleId handle,
                                                       [[maybe_unused]] const FileLock& wanted) {
        return fail(ENOSYS);
    }
    // Locks or unlocks.  With `wait` it waits while others are in the way; else EAGAIN.
    virtual Async<void> set_lock([[maybe_unused]] NodeId node, [[maybe_unused]] HandleId handle,
                                 [[maybe_unused]] const FileLock& wanted, [[maybe_unused]] bool wait) {
        return fail(ENOSYS);
    }
    // The owner has closed a file: its locks of that kind on the node go.
    virtual void drop_locks([[maybe_unused]] NodeId node, [[maybe_unused]] LockKind kind,
                            [[maybe_unused]] std::uint64_t owner) {}
    // The handle is about to be released: what was locked through it goes.
    virtual void drop_handle_locks([[maybe_unused]] NodeId node, [[maybe_unused]] HandleId handle) {}
    // Everybody who waits for a lock gets ENOLCK, soon.
    virtual void end_lock_waits() {}

    // For a layer that keeps locks: what the node is on the host, and how the host is told of a lock
    // (nullptr: not at all).
    virtual Result<NodeIdentity> identity_of([[maybe_unused]] NodeId node) { return fail(ENOSYS); }
    virtual Result<std::unique_ptr<HostLocks>> host_locks([[maybe_unused]] NodeId node,
                                                          [[maybe_unused]] HandleId handle,
                                                          [[maybe_unused]] LockKind kind) {
        return nullptr;
    }

    // Calls that give out nodes and handles would fail with ENFILE now or soon, and need not if they are made
    // a little later: places are about to become free.  Cheap; any worker.
    virtual bool room_to_come() const noexcept { return false; }

    // A session begins, before any of its calls.  `client_sees_submounts`: it tells file systems below the
    // share apart; else it takes all inode numbers for those of one.
    virtual void begin_session([[maybe_unused]] bool client_sees_submounts) {}
    // The session is over and none of its calls is running: drops every lookup count and handle.
    virtual void end_session() = 0;
};

} // namespace viaduct::fs
