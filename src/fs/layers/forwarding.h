// SPDX-License-Identifier: Apache-2.0
//
// Forwarding: a FileSystem that hands every call on.  Layers override what they are about.
#pragma once

#include "fs/file_system.h"

#include <memory>

namespace viaduct::fs {

class Forwarding : public FileSystem {
public:
    explicit Forwarding(std::unique_ptr<FileSystem> inner) : inner_(std::move(inner)) {}

    Async<Entry> lookup(const Caller& caller, NodeId parent, const Name& name) override {
        return inner_->lookup(caller, parent, name);
    }
    void forget(NodeId node, std::uint64_t count) override { inner_->forget(node, count); }
    Async<AttrReply> getattr(const Caller& caller, NodeId node, std::optional<HandleId> handle) override {
        return inner_->getattr(caller, node, handle);
    }
    Async<AttrReply> setattr(const Caller& caller, NodeId node, const SetAttr& change) override {
        return inner_->setattr(caller, node, change);
    }
    Async<std::string> readlink(const Caller& caller, NodeId node) override {
        return inner_->readlink(caller, node);
    }
    Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name, std::string target) override {
        return inner_->symlink(caller, parent, name, std::move(target));
    }
    Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t device, std::uint32_t umask) override {
        return inner_->mknod(caller, parent, name, mode, device, umask);
    }
    Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t umask) override {
        return inner_->mkdir(caller, parent, name, mode, umask);
    }
    Async<void> unlink(const Caller& caller, NodeId parent, const Name& name) override {
        return inner_->unlink(caller, parent, name);
    }
    Async<void> rmdir(const Caller& caller, NodeId parent, const Name& name) override {
        return inner_->rmdir(caller, parent, name);
    }
    Async<void> rename(const Caller& caller, NodeId parent, const Name& name, NodeId new_parent,
                       const Name& new_name, std::uint32_t flags) override {
        return inner_->rename(caller, parent, name, new_parent, new_name, flags);
    }
    Async<Entry> link(const Caller& caller, NodeId node, NodeId new_parent, const Name& new_name) override {
        return inner_->link(caller, node, new_parent, new_name);
    }
    Async<Opened> open(const Caller& caller, NodeId node, std::uint32_t flags, bool kill_suid_sgid) override {
        return inner_->open(caller, node, flags, kill_suid_sgid);
    }
    Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                          std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override {
        return inner_->create(caller, parent, name, flags, mode, umask, kill_suid_sgid);
    }
    Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags, std::uint32_t mode,
                           std::uint32_t umask) override {
        return inner_->tmpfile(caller, parent, flags, mode, umask);
    }
    Async<std::size_t> read(const Caller& caller, HandleId handle, std::uint64_t offset,
                            Segments into) override {
        return inner_->read(caller, handle, offset, into);
    }
    Async<std::size_t> write(const Caller& caller, HandleId handle, std::uint64_t offset, Segments from,
                             WriteOptions options) override {
        return inner_->write(caller, handle, offset, from, options);
    }
    Async<void> flush(const Caller& caller, HandleId handle) override {
        return inner_->flush(caller, handle);
    }
    Async<void> fsync(const Caller& caller, HandleId handle, bool data_only) override {
        return inner_->fsync(caller, handle, data_only);
    }
    Async<void> release(HandleId handle) override { return inner_->release(handle); }
    Async<void> fallocate(const Caller& caller, HandleId handle, std::uint32_t mode, std::uint64_t offset,
                          std::uint64_t bytes) override {
        return inner_->fallocate(caller, handle, mode, offset, bytes);
    }
    Async<std::uint64_t> lseek(const Caller& caller, HandleId handle, std::uint64_t offset,
                               std::uint32_t whence) override {
        return inner_->lseek(caller, handle, offset, whence);
    }
    Async<std::size_t> copy_file_range(const Caller& caller, HandleId from, std::uint64_t from_offset,
                                       HandleId to, std::uint64_t to_offset, std::uint64_t bytes,
                                       std::uint64_t flags) override {
        return inner_->copy_file_range(caller, from, from_offset, to, to_offset, bytes, flags);
    }
    Async<Opened> opendir(const Caller& caller, NodeId node) override {
        return inner_->opendir(caller, node);
    }
    Async<void> readdir(const Caller& caller, HandleId handle, std::uint64_t offset, bool plus,
                        DirentSink& sink) override {
        return inner_->readdir(caller, handle, offset, plus, sink);
    }
    Async<void> fsyncdir(const Caller& caller, HandleId handle, bool data_only) override {
        return inner_->fsyncdir(caller, handle, data_only);
    }
    Async<void> releasedir(HandleId handle) override { return inner_->releasedir(handle); }
    Async<FsStat> statfs(const Caller& caller, NodeId node) override { return inner_->statfs(caller, node); }
    Async<void> syncfs(const Caller& caller, NodeId node) override { return inner_->syncfs(caller, node); }
    Async<void> access(const Caller& caller, NodeId node, std::uint32_t mask) override {
        return inner_->access(caller, node, mask);
    }
    Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                         std::span<const std::byte> value, std::uint32_t flags) override {
        return inner_->setxattr(caller, node, std::move(name), value, flags);
    }
    Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                std::span<std::byte> into) override {
        return inner_->getxattr(caller, node, std::move(name), into);
    }
    Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) override {
        return inner_->listxattr(caller, node, into);
    }
    Async<void> removexattr(const Caller& caller, NodeId node, std::string name) override {
        return inner_->removexattr(caller, node, std::move(name));
    }
    Result<std::optional<FileLock>> query_lock(NodeId node, HandleId handle,
                                               const FileLock& wanted) override {
        return inner_->query_lock(node, handle, wanted);
    }
    Async<void> set_lock(NodeId node, HandleId handle, const FileLock& wanted, bool wait) override {
        return inner_->set_lock(node, handle, wanted, wait);
    }
    void drop_locks(NodeId node, LockKind kind, std::uint64_t owner) override {
        inner_->drop_locks(node, kind, owner);
    }
    void drop_handle_locks(NodeId node, HandleId handle) override { inner_->drop_handle_locks(node, handle); }
    void end_lock_waits() override { inner_->end_lock_waits(); }
    Result<NodeIdentity> identity_of(NodeId node) override { return inner_->identity_of(node); }
    Result<std::unique_ptr<HostLocks>> host_locks(NodeId node, HandleId handle, LockKind kind) override {
        return inner_->host_locks(node, handle, kind);
    }
    bool room_to_come() const noexcept override { return inner_->room_to_come(); }
    void begin_session(bool client_sees_submounts) override { inner_->begin_session(client_sees_submounts); }
    void end_session() override { inner_->end_session(); }

protected:
    FileSystem& inner() noexcept { return *inner_; }

private:
    const std::unique_ptr<FileSystem> inner_;
};

} // namespace viaduct::fs
