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

    Async<void> setxattr(const Caller& caller, NodeId node, std::string name,
                         std::span<const std::byte> value, std::uint32_t flags) override;
    Async<std::size_t> getxattr(const Caller& caller, NodeId node, std::string name,
                                std::span<std::byte> into) override;
    Async<std::size_t> listxattr(const Caller& caller, NodeId node, std::span<std::byte> into) override;
    Async<void> removexattr(const Caller& caller, NodeId node, std::string name) override;

private:
    Result<std::string> host_name_of(const std::string& name) const;
    rt::Task<Result<std::size_t>> list(const Caller& caller, NodeId node, std::span<std::byte> into);

    const XattrMap map_;
    const bool acls_;
};

} // namespace viaduct::fs
