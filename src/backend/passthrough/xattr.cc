// SPDX-License-Identifier: Apache-2.0
//
// Extended attributes, through /proc/self/fd/N: that path leads to the object itself, a symbolic link
// included, and nothing is opened.
#include "backend/passthrough/dispatch.h"
#include "fs/xattr_names.h"

#include <string_view>
#include <sys/xattr.h>
#include <vector>

namespace viaduct::passthrough {

Status xattr_usable(const Options& options, const std::string& name, bool changes) {
    if (!options.xattr || (!options.posix_acl && is_acl_name(name))) return fail(EOPNOTSUPP);
    if (changes && options.read_only) return fail(EROFS);
    if (name.empty() || name.find('\0') != name.npos) return fail(EINVAL);
    return {};
}

FileSystem::Async<void> Passthrough::setxattr(const Caller&, NodeId id, std::string name,
                                              std::span<const std::byte> value, std::uint32_t flags) {
    TRY_STATUS(xattr_usable(options_, name, true));
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd, name = std::move(name), value, flags]() -> Status {
        if (::setxattr(ProcFd::path(fd).bytes, name.c_str(), value.data(), value.size(),
                       static_cast<int>(flags)) != 0)
            return fail(errno);
        return {};
    };
    return run(OpClass::xattr, *node, std::move(call));
}

FileSystem::Async<std::size_t> Passthrough::getxattr(const Caller&, NodeId id, std::string name,
                                                     std::span<std::byte> into) {
    TRY_STATUS(xattr_usable(options_, name, false));
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd, name = std::move(name), into]() -> Result<std::size_t> {
        const auto bytes = ::getxattr(ProcFd::path(fd).bytes, name.c_str(), into.data(), into.size());
        if (bytes < 0) return fail(errno);
        return static_cast<std::size_t>(bytes);
    };
    return run(OpClass::xattr, *node, std::move(call));
}

FileSystem::Async<std::size_t> Passthrough::listxattr(const Caller&, NodeId id, std::span<std::byte> into) {
    if (!options_.xattr) return fail(EOPNOTSUPP);
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd, into, acls = options_.posix_acl]() -> Result<std::size_t> {
        std::vector<char> all(kXattrListBytesMax);
        const auto bytes = ::listxattr(ProcFd::path(fd).bytes, all.data(), all.size());
        if (bytes < 0) return fail(errno);
        const auto shown = [acls](std::string_view name) {
            return !acls && is_acl_name(name) ? std::nullopt : std::optional{name};
        };
        return put_xattr_names({all.data(), static_cast<std::size_t>(bytes)}, into, shown);
    };
    return run(OpClass::xattr, *node, call);
}

FileSystem::Async<void> Passthrough::removexattr(const Caller&, NodeId id, std::string name) {
    TRY_STATUS(xattr_usable(options_, name, true));
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd, name = std::move(name)]() -> Status {
        if (::removexattr(ProcFd::path(fd).bytes, name.c_str()) != 0) return fail(errno);
        return {};
    };
    return run(OpClass::xattr, *node, std::move(call));
}

} // namespace viaduct::passthrough
