// SPDX-License-Identifier: Apache-2.0
//
// Locks: a layer that keeps one client's locks in the table of the share, and has the back end tell the host.
#pragma once

#include "fs/layers/forwarding.h"
#include "fs/lock_table.h"

namespace viaduct::fs {

class Locks final : public Forwarding {
public:
    // `table`: its owners are the layers of all clients and whoever makes them.
    Locks(std::unique_ptr<FileSystem> inner, std::shared_ptr<LockTable> table,
          const LockTable::Limits& limits)
        : Forwarding(std::move(inner)), table_(std::move(table)), client_(limits) {}
    ~Locks() override { table_->drop_all(client_); }

    Result<std::optional<FileLock>> query_lock(NodeId node, HandleId handle, const FileLock& wanted) override;
    Async<void> set_lock(NodeId node, HandleId handle, const FileLock& wanted, bool wait) override;
    void drop_locks(NodeId node, LockKind kind, std::uint64_t owner) override;
    void drop_handle_locks(NodeId node, HandleId handle) override;
    void end_lock_waits() override { table_->end_waits(client_); }
    void end_session() override;

private:
    LockTable::Opener opener(NodeId node, HandleId handle, LockKind kind);

    const std::shared_ptr<LockTable> table_;
    LockTable::Client client_;
};

} // namespace viaduct::fs
