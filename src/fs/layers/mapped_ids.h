// SPDX-License-Identifier: Apache-2.0
//
// MappedIds: a layer behind which the ids of users and groups are the host's.
//
// What the client makes belongs to the host's id of its caller, and attributes name the client's id of their
// owner. A forbidden id can make nothing and be given nothing (EPERM); it can use what is there.
#pragma once

#include "fs/id_map.h"
#include "fs/layers/forwarding.h"

namespace viaduct::fs {

class MappedIds final : public Forwarding {
public:
    MappedIds(std::unique_ptr<FileSystem> inner, IdMap users, IdMap groups)
        : Forwarding(std::move(inner)), users_(std::move(users)), groups_(std::move(groups)) {}

    Async<Entry> lookup(const Caller& caller, NodeId parent, const Name& name) override;
    Async<AttrReply> getattr(const Caller& caller, NodeId node, std::optional<HandleId> handle) override;
    Async<Opened> open(const Caller& caller, NodeId node, std::uint32_t flags, bool kill_suid_sgid) override;
    Async<std::size_t> write(const Caller& caller, HandleId handle, std::uint64_t offset, Segments from,
                             WriteOptions options) override;
    Async<AttrReply> setattr(const Caller& caller, NodeId node, const SetAttr& change) override;
    Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name, std::string target) override;
    Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t device, std::uint32_t umask) override;
    Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t umask) override;
    Async<Entry> link(const Caller& caller, NodeId node, NodeId new_parent, const Name& new_name) override;
    Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                          std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override;
    Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags, std::uint32_t mode,
                           std::uint32_t umask) override;
    Async<void> readdir(const Caller& caller, HandleId handle, std::uint64_t offset, bool plus,
                        DirentSink& sink) override;

private:
    class Sink;
    Result<Caller> host_of(const Caller& caller) const noexcept;
    void show(Attr& attr) const noexcept;
    void show(Entry& entry) const noexcept { show(entry.attr); }
    void show(AttrReply& reply) const noexcept { show(reply.attr); }
    void show(Created& created) const noexcept { show(created.entry.attr); }
    template <class T> Async<T> shown(Async<T> async) const;
    template <class T> rt::Task<Result<T>> shown_later(rt::Task<Result<T>> task) const;
    // `call(caller)` with the host's ids; arguments that it refers to outlive the Async.
    template <class T, class Call> Async<T> as_host(const Caller& caller, Call call);
    template <class T, class Call> rt::Task<Result<T>> as_host_later(Caller host, Call call);
    Caller in_host_group(const Caller& caller) const noexcept;
    template <class T, class Call> rt::Task<Result<T>> later(Caller host, Call call);
    rt::Task<Result<AttrReply>> change(Caller host, NodeId node, SetAttr change);
    rt::Task<Status> list(const Caller& caller, HandleId handle, std::uint64_t offset, DirentSink& sink);

    const IdMap users_;
    const IdMap groups_;
};

} // namespace viaduct::fs
