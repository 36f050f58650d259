// SPDX-License-Identifier: Apache-2.0
#include "fs/layers/mapped_ids.h"

namespace viaduct::fs {

Result<Caller> MappedIds::host_of(const Caller& caller) const noexcept {
    Caller host = caller;
    TRY(host.uid, users_.to_host(caller.uid));
    TRY(host.gid, groups_.to_host(caller.gid));
    // One that may not be used is as good as none.
    if (caller.supplementary) {
        const auto group = groups_.to_host(*caller.supplementary);
        host.supplementary = group ? std::optional{*group} : std::nullopt;
    }
    return host;
}

// Of a caller that makes nothing only the group counts: whether it is the file's decides over set-group-id.
Caller MappedIds::in_host_group(const Caller& caller) const noexcept {
    constexpr std::uint32_t kNobodys = 65534;
    Caller host = caller;
    host.gid = groups_.to_host(caller.gid).value_or(kNobodys);
    return host;
}

void MappedIds::show(Attr& attr) const noexcept {
    attr.uid = users_.to_client(attr.uid);
    attr.gid = groups_.to_client(attr.gid);
}

template <class T> FileSystem::Async<T> MappedIds::shown(Async<T> async) const {
    if (!async.ready()) return shown_later<T>(std::move(async).task());
    if (async.value()) show(*async.value());
    return async;
}

template <class T> rt::Task<Result<T>> MappedIds::shown_later(rt::Task<Result<T>> task) const {
    Result<T> result = co_await std::move(task);
    if (result) show(*result);
    co_return result;
}

template <class T, class Call> FileSystem::Async<T> MappedIds::as_host(const Caller& caller, Call call) {
    TRY(const Caller host, host_of(caller));
    return as_host_later<T>(host, std::move(call));
}

// The frame keeps the caller for as long as the call takes.
template <class T, class Call> rt::Task<Result<T>> MappedIds::as_host_later(Caller host, Call call) {
    auto async = call(host);
    Result<T> result = co_await std::move(async);
    if (result) show(*result);
    co_return result;
}

template <class T, class Call> rt::Task<Result<T>> MappedIds::later(Caller host, Call call) {
    auto async = call(host);
    co_return co_await std::move(async);
}

FileSystem::Async<Opened> MappedIds::open(const Caller& caller, NodeId node, std::uint32_t flags,
                                          bool kill_suid_sgid) {
    if (!kill_suid_sgid) return inner().open(caller, node, flags, false);
    return later<Opened>(in_host_group(caller), [this, node, flags](const Caller& host) {
        return inner().open(host, node, flags, true);
    });
}

FileSystem::Async<std::size_t> MappedIds::write(const Caller& caller, HandleId handle, std::uint64_t offset,
                                                Segments from, WriteOptions options) {
    if (!options.kill_suid_sgid) return inner().write(caller, handle, offset, from, options);
    return later<std::size_t>(in_host_group(caller),
                              [this, handle, offset, from, options](const Caller& host) {
                                  return inner().write(host, handle, offset, from, options);
                              });
}

FileSystem::Async<Entry> MappedIds::lookup(const Caller& caller, NodeId parent, const Name& name) {
    return shown(inner().lookup(caller, parent, name));
}

FileSystem::Async<AttrReply> MappedIds::getattr(const Caller& caller, NodeId node,
                                                std::optional<HandleId> handle) {
    return shown(inner().getattr(caller, node, handle));
}

FileSystem::Async<AttrReply> MappedIds::setattr(const Caller& caller, NodeId node, const SetAttr& change) {
    SetAttr host = change;
    if (change.has(SetAttr::uid_field)) {
        TRY(host.uid, users_.to_host(change.uid));
    }
    if (change.has(SetAttr::gid_field)) {
        TRY(host.gid, groups_.to_host(change.gid));
    }
    return this->change(in_host_group(caller), node, host);
}

rt::Task<Result<AttrReply>> MappedIds::change(Caller host, NodeId node, SetAttr change) {
    auto async = inner().setattr(host, node, change);
    Result<AttrReply> result = co_await std::move(async);
    if (result) show(*result);
    co_return result;
}

FileSystem::Async<Entry> MappedIds::symlink(const Caller& caller, NodeId parent, const Name& name,
                                            std::string target) {
    return as_host<Entry>(caller, [this, parent, &name, target = std::move(target)](const Caller& host) {
        return inner().symlink(host, parent, name, target);
    });
}

FileSystem::Async<Entry> MappedIds::mknod(const Caller& caller, NodeId parent, const Name& name,
                                          std::uint32_t mode, std::uint32_t device, std::uint32_t umask) {
    return as_host<Entry>(caller, [this, parent, &name, mode, device, umask](const Caller& host) {
        return inner().mknod(host, parent, name, mode, device, umask);
    });
}

FileSystem::Async<Entry> MappedIds::mkdir(const Caller& caller, NodeId parent, const Name& name,
                                          std::uint32_t mode, std::uint32_t umask) {
    return as_host<Entry>(caller, [this, parent, &name, mode, umask](const Caller& host) {
        return inner().mkdir(host, parent, name, mode, umask);
    });
}

FileSystem::Async<Entry> MappedIds::link(const Caller& caller, NodeId node, NodeId new_parent,
                                         const Name& new_name) {
    return shown(inner().link(caller, node, new_parent, new_name));
}

FileSystem::Async<Created> MappedIds::create(const Caller& caller, NodeId parent, const Name& name,
                                             std::uint32_t flags, std::uint32_t mode, std::uint32_t umask,
                                             bool kill_suid_sgid) {
    return as_host<Created>(caller,
                            [this, parent, &name, flags, mode, umask, kill_suid_sgid](const Caller& host) {
                                return inner().create(host, parent, name, flags, mode, umask, kill_suid_sgid);
                            });
}

FileSystem::Async<Created> MappedIds::tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags,
                                              std::uint32_t mode, std::uint32_t umask) {
    return as_host<Created>(caller, [this, parent, flags, mode, umask](const Caller& host) {
        return inner().tmpfile(host, parent, flags, mode, umask);
    });
}

class MappedIds::Sink final : public DirentSink {
public:
    Sink(const MappedIds& ids, DirentSink& outer) noexcept : ids_(ids), outer_(outer) {}
    bool has_room(std::size_t name_bytes) const override { return outer_.has_room(name_bytes); }
    bool add(const Dirent& dirent, const Entry* entry) override {
        if (entry == nullptr) return outer_.add(dirent, nullptr);
        Entry seen = *entry;
        ids_.show(seen);
        return outer_.add(dirent, &seen);
    }

private:
    const MappedIds& ids_;
    DirentSink& outer_;
};

FileSystem::Async<void> MappedIds::readdir(const Caller& caller, HandleId handle, std::uint64_t offset,
                                           bool plus, DirentSink& sink) {
    if (!plus) return inner().readdir(caller, handle, offset, false, sink);
    return list(caller, handle, offset, sink);
}

rt::Task<Status> MappedIds::list(const Caller& caller, HandleId handle, std::uint64_t offset,
                                 DirentSink& sink) {
    Sink seen{*this, sink};
    auto async = inner().readdir(caller, handle, offset, true, seen);
    co_return co_await std::move(async);
}

} // namespace viaduct::fs
