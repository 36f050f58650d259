// SPDX-License-Identifier: Apache-2.0
#include "fs/layers/mapped_xattrs.h"

#include "fs/xattr_names.h"

#include <vector>

namespace viaduct::fs {

Result<std::string> MappedXattrs::host_name_of(const std::string& name) const {
    if (is_acl_name(name) && !acls_) return fail(EOPNOTSUPP);
    if (is_acl_name(name)) return name;
    return map_.to_host(name);
}

template <class T, class Call> FileSystem::Async<T> MappedXattrs::labelled(const Caller& caller, Call call) {
    if (caller.label == nullptr) return call(caller);
    SecurityLabel label = *caller.label;
    TRY(label.name, host_name_of(label.name));
    return labelled_later<T>(caller, std::move(label), std::move(call));
}

// The frame keeps the label for as long as the call takes.
template <class T, class Call>
rt::Task<Result<T>> MappedXattrs::labelled_later(Caller caller, SecurityLabel label, Call call) {
    caller.label = &label;
    auto async = call(caller);
    co_return co_await std::move(async);
}

FileSystem::Async<Entry> MappedXattrs::symlink(const Caller& caller, NodeId parent, const Name& name,
                                               std::string target) {
    return labelled<Entry>(caller, [this, parent, &name, target = std::move(target)](const Caller& host) {
        return inner().symlink(host, parent, name, target);
    });
}

FileSystem::Async<Entry> MappedXattrs::mknod(const Caller& caller, NodeId parent, const Name& name,
                                             std::uint32_t mode, std::uint32_t device, std::uint32_t umask) {
    return labelled<Entry>(caller, [this, parent, &name, mode, device, umask](const Caller& host) {
        return inner().mknod(host, parent, name, mode, device, umask);
    });
}

FileSystem::Async<Entry> MappedXattrs::mkdir(const Caller& caller, NodeId parent, const Name& name,
                                             std::uint32_t mode, std::uint32_t umask) {
    return labelled<Entry>(caller, [this, parent, &name, mode, umask](const Caller& host) {
        return inner().mkdir(host, parent, name, mode, umask);
    });
}

FileSystem::Async<Created> MappedXattrs::create(const Caller& caller, NodeId parent, const Name& name,
                                                std::uint32_t flags, std::uint32_t mode, std::uint32_t umask,
                                                bool kill_suid_sgid) {
    return labelled<Created>(
        caller, [this, parent, &name, flags, mode, umask, kill_suid_sgid](const Caller& host) {
            return inner().create(host, parent, name, flags, mode, umask, kill_suid_sgid);
        });
}

FileSystem::Async<Created> MappedXattrs::tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags,
                                                 std::uint32_t mode, std::uint32_t umask) {
    return labelled<Created>(caller, [this, parent, flags, mode, umask](const Caller& host) {
        return inner().tmpfile(host, parent, flags, mode, umask);
    });
}

FileSystem::Async<void> MappedXattrs::setxattr(const Caller& caller, NodeId node, std::string name,
                                               std::span<const std::byte> value, std::uint32_t flags) {
    TRY(std::string host_name, host_name_of(name));
    return inner().setxattr(caller, node, std::move(host_name), value, flags);
}

FileSystem::Async<std::size_t> MappedXattrs::getxattr(const Caller& caller, NodeId node, std::string name,
                                                      std::span<std::byte> into) {
    TRY(std::string host_name, host_name_of(name));
    return inner().getxattr(caller, node, std::move(host_name), into);
}

FileSystem::Async<std::size_t> MappedXattrs::listxattr(const Caller& caller, NodeId node,
                                                       std::span<std::byte> into) {
    return list(caller, node, into);
}

// The host's names may be longer than the client's, so they need room of their own.
rt::Task<Result<std::size_t>> MappedXattrs::list(const Caller& caller, NodeId node,
                                                 std::span<std::byte> into) {
    std::vector<std::byte> all(kXattrListBytesMax);
    auto async = inner().listxattr(caller, node, all);
    const auto bytes = co_await std::move(async);
    if (!bytes) co_return fail(bytes.error());
    const std::string_view names{reinterpret_cast<const char*>(all.data()), *bytes};
    const auto shown = [this](std::string_view name) {
        if (acls_ && is_acl_name(name)) return std::optional{name};
        const auto seen = map_.to_client(name);
        return seen && is_acl_name(*seen) ? std::nullopt : seen;
    };
    co_return put_xattr_names(names, into, shown);
}

FileSystem::Async<void> MappedXattrs::removexattr(const Caller& caller, NodeId node, std::string name) {
    TRY(std::string host_name, host_name_of(name));
    return inner().removexattr(caller, node, std::move(host_name));
}

} // namespace viaduct::fs
