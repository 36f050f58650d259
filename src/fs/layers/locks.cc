// SPDX-License-Identifier: Apache-2.0
#include "fs/layers/locks.h"

namespace viaduct::fs {

LockTable::Opener Locks::opener(NodeId node, HandleId handle, LockKind kind) {
    return [this, node, handle, kind] { return inner().host_locks(node, handle, kind); };
}

Result<std::optional<FileLock>> Locks::query_lock(NodeId node, HandleId handle, const FileLock& wanted) {
    TRY(const NodeIdentity identity, inner().identity_of(node));
    return table_->query(client_, identity, wanted, opener(node, handle, wanted.kind));
}

FileSystem::Async<void> Locks::set_lock(NodeId node, HandleId handle, const FileLock& wanted, bool wait) {
    TRY(const NodeIdentity identity, inner().identity_of(node));
    auto open = opener(node, handle, wanted.kind);
    if (!wait || wanted.type == LockType::none) return table_->set(client_, identity, handle, wanted, open);
    return table_->wait(client_, identity, handle, wanted, std::move(open));
}

// A client without locks is not asked for what its node is.
void Locks::drop_locks(NodeId node, LockKind kind, std::uint64_t owner) {
    if (!client_.may_hold()) return;
    if (const auto identity = inner().identity_of(node)) table_->drop_owner(client_, *identity, kind, owner);
}

void Locks::drop_handle_locks(NodeId node, HandleId handle) {
    if (!client_.may_hold()) return;
    if (const auto identity = inner().identity_of(node)) table_->drop_handle(client_, *identity, handle);
}

void Locks::end_session() {
    table_->drop_all(client_);
    Forwarding::end_session();
}

} // namespace viaduct::fs
