// SPDX-License-Identifier: Apache-2.0
//
// MappedXattrs: a layer that keeps the client's extended attributes under other names.  ACLs keep theirs, as
// the host makes use of them too.
#pragma once

#include "fs/layers/forwarding.h"
#include "fs/xattr_map.h"

namespace viaduct::fs {

class MappedXattrs final : public Forwarding {
public:
    // `acls`: the client may see and set ACLs.
    MappedXattrs(std::unique_ptr<FileSystem> inner, XattrMap map, bool acls = false)
        : Forwarding(std::move(inner)), map_(std::move(map)), acls_(acls) {}

    Async<Entry> symlink(const Caller& caller, NodeId parent, const Name& name, std::string target) override;
    Async<Entry> mknod(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t device, std::uint32_t umask) override;
    Async<Entry> mkdir(const Caller& caller, NodeId parent, const Name& name, std::uint32_t mode,
                       std::uint32_t umask) override;
    Async<Created> create(const Caller& caller, NodeId parent, const Name& name, std::uint32_t flags,
                          std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override;
    Async<Created> tmpfile(const Caller& caller, NodeId parent, std::uint32_t flags, std::uint32_t mode,
                           std::uint32_t umask) override;
    Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                         std::span<const std::byte> value, std::uint32_t flags) override;
    Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                std::span<std::byte> into) override;
    Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) override;
    Async<void> removexattr(const Caller& caller, NodeId node, std::string name) override;

private:
    Result<std::string> host_name_of(const std::string& name) const;
    // `call(caller)` with the host's name of the label; arguments that it refers to outlive the Async.
    template <class T, class Call> Async<T> labelled(const Caller& caller, Call call);
    template <class T, class Call>
    rt::Task<Result<T>> labelled_later(Caller caller, SecurityLabel label, Call call);
    rt::Task<Result<std::size_t>> list(const Caller& caller, NodeId node, std::span<std::byte> into);

    const XattrMap map_;
    const bool acls_;
};

} // namespace viaduct::fs
