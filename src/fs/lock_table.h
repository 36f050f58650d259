// SPDX-License-Identifier: Apache-2.0
//
// LockTable: the locks on the files of one share, of all its clients, and who waits for them.
//
// Any worker.  `mutex_` guards everything but what a waiter says is its worker's; nothing else is locked
// inside, and what is called inside (HostLocks, Worker::post) does not wait.  Locks are given out in the
// order in which they were asked for.  docs/decisions/locks.md.
#pragma once

#include "base/sync.h"
#include "fs/lock_list.h"
#include "fs/types.h"
#include "rt/task.h"

#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

namespace viaduct::fs {

class LockTable {
public:
    // A request looks at what a file has of each; none may hold the worker for long.
    struct Limits {
        std::size_t locks_max = 4096; // ranges that one client holds; holes may make them twice as many
        std::size_t owners_max =
            2048; // of one client, each counted once per file: each may have a descriptor
        std::size_t waiters_max = 512; // of one client
    };
    class Waiter;

    // What the table keeps of one client.  The client ends its waits and drops its locks before it goes.
    class Client {
    public:
        explicit Client(const Limits& limits);
        ~Client();
        Client(const Client&) = delete;
        Client& operator=(const Client&) = delete;

        // Any thread: may it hold anything?
        bool may_hold() const noexcept { return owners_.load(std::memory_order_acquire) > 0; }

    private:
        friend class LockTable;
        const Limits limits_;
        const std::uint64_t id_;
        sync::Shared<std::uint32_t> owners_; // those that hold or wait, by file
        std::size_t locks_ = 0;
        std::unordered_map<std::uint32_t, std::size_t> holders_by_pid_;
        std::vector<Waiter*> waiters_;
    };

    // Makes the host's locks of an owner that has none yet; nullptr: the host is not told.
    using Opener = std::function<Result<std::unique_ptr<HostLocks>>()>;

    LockTable();
    ~LockTable();
    LockTable(const LockTable&) = delete;
    LockTable& operator=(const LockTable&) = delete;

    // What would be in the way of `wanted`; nullopt: nothing.
    Result<std::optional<FileLock>> query(Client& client, const NodeIdentity& file, const FileLock& wanted,
                                          const Opener& open);
    // Locks or unlocks, without waiting.  `handle`: what the client has open.  EAGAIN: somebody else's is in
    // the way; ENOLCK: the client has as many as it may.
    Status set(Client& client, const NodeIdentity& file, HandleId handle, const FileLock& wanted,
               const Opener& open);
    // The same, waiting for others: holds no thread.  Runs on a worker.  EINTR: the task was cancelled;
    // ENOLCK: end_waits(); EDEADLK: the others wait for this owner.
    rt::Task<Status> wait(Client& client, NodeIdentity file, HandleId handle, FileLock wanted, Opener open);

    // What the owner holds of the file is free.
    void drop_owner(Client& client, const NodeIdentity& file, LockKind kind, std::uint64_t owner);
    // The same for all that was locked through the handle.
    void drop_handle(Client& client, const NodeIdentity& file, HandleId handle);
    void drop_all(Client& client);

    // All who wait get ENOLCK.
    void end_waits(Client& client);

    std::size_t waiting(const Client& client) const;
    std::size_t files() const;

private:
    struct Owner;
    struct File;
    struct Asker;
    struct IdentityHash {
        std::size_t operator()(const NodeIdentity& identity) const noexcept;
    };
    enum class Blocked { by_others, by_host };
    // What a waiter does next.
    enum class Step { message_to_come, others, host_first, host_again, done };

    File& file_for(const NodeIdentity& identity);
    Owner* find_owner(File& file, const LockOwner& owner, LockKind kind) noexcept;
    Status owner_for(File& file, const Asker& asker, const Opener& open);
    Status give_host(File& file, Owner& owner, const FileLock& wanted, const Opener& open);
    Status take(File& file, const Asker& asker, Blocked& blocked);
    Status ask(File& file, const Asker& asker, const Opener& open, Blocked& blocked);
    void change(File& file, Owner& owner, LockType type, const LockRange& range, std::uint32_t pid);
    void release(File& file, Owner& owner);
    void tidy_owner(File& file, const LockOwner& owner, LockKind kind);
    void tidy_file(File& file);
    void serve_waiters(File& file);
    bool waits_behind_others(const File& file, const Asker& asker, const Waiter* up_to) const;
    bool would_deadlock(const File& file, const Asker& asker) const;
    void collect_blockers(const File& file, const Asker& asker, std::vector<const Owner*>& into,
                          std::size_t& looks) const;
    void finish(Waiter& waiter, Status outcome);
    void unlink(Waiter& waiter);
    Step begin_wait(const NodeIdentity& identity, Waiter& waiter, const Opener& open);
    Step go_on(Waiter& waiter, int timer_ended);
    template <class Drops> void drop(Client& client, const NodeIdentity& identity, Drops drops);

    mutable sync::Mutex mutex_;
    std::unordered_map<NodeIdentity, std::unique_ptr<File>, IdentityHash> files_;
};

} // namespace viaduct::fs
