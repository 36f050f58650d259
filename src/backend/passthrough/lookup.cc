// SPDX-License-Identifier: Apache-2.0
//
// Names to nodes.
#include "backend/passthrough/dispatch.h"

#include <unistd.h>

namespace viaduct::passthrough {
namespace {

constexpr std::size_t kLinkBytesMax = 4096; // PATH_MAX

} // namespace

// Opens the child and asks for its attributes.  A refused crossing leaves the other mount untouched.
Result<Found> Passthrough::find_child(const Dir& dir, const char* name, Crossing crossing) const {
    Result<Found> found;
    auto fd = open_child(dir.fd, name, crossing);
    if (!fd) return fail(blame(dir.fd, fd.error().value()));
    found->fd = std::move(*fd);
    if (const auto status = stat_found(*found); !status) return fail(status.error());
    found->mount = found->mount_id == dir.mount_id
                       ? dir.mount
                       : core_->mounts.resolve(found->fd.get(), found->mount_id, device_of(found->attr));
    return found;
}

// The client gets one more lookup count on what was found.
Result<Entry> Passthrough::enter(const Dir& dir, Found found) {
    const auto facts = facts_of(found);
    Result<Entry> entry;
    TRY(entry->node, nodes_->intern(std::move(found.fd), facts));
    entry->attr = found.attr;
    entry->attr.inode = fold(found.attr.inode, facts.identity.device);
    entry->entry_valid = valid_;
    entry->attr_valid = valid_;
    entry->submount = S_ISDIR(found.attr.mode) &&
                      (facts.identity.mount_id != dir.mount_id || facts.identity.device != dir.device);
    return entry;
}

// Clients that see one file system tell files apart by inode number alone.
std::uint64_t Passthrough::fold(std::uint64_t inode, std::uint32_t device) const noexcept {
    if (!fold_inodes_.load(std::memory_order_relaxed) || device == root_device_) return inode;
    return inode ^ ((std::uint64_t{device} * 0x9e3779b97f4a7c15U) & ~0xffffffffULL);
}

FileSystem::Async<Entry> Passthrough::lookup(const Caller&, NodeId parent, const Name& name) {
    TRY(Node* const node, nodes_->find(parent));
    const Dir dir{*node};
    bool crossing = false;
    if (inline_here(OpClass::lookup, dir.mount)) {
        auto found = find_child(dir, name.c_str(), Crossing::refused);
        ended_inline(OpClass::lookup, dir.mount);
        if (found) return enter(dir, std::move(*found));
        if (found.error() != Errno{EXDEV}) return fail(found.error());
        crossing = true;
    }
    return lookup_away(nodes_->pin(*node), name, crossing);
}

// `crossing`: the name is known to be a mount point.  Behind one there may be a server that hangs, and even
// asking which mount it is may wait for it (its root is revalidated), so crossings have helpers of their own.
rt::Task<Result<Entry>> Passthrough::lookup_away(NodePin parent, Name name, bool crossing) {
    const Dir dir{*parent};
    const auto step = [&](std::uint16_t mount, Crossing allowed) {
        auto call = [this, &dir, &name, allowed] { return find_child(dir, name.c_str(), allowed); };
        return away<Found>(OpClass::lookup, mount, Pins{}, call);
    };
    if (!crossing) {
        auto here = step(dir.mount, Crossing::refused);
        Result<Found> found = co_await std::move(here);
        if (found) co_return enter(dir, std::move(*found));
        if (found.error() != Errno{EXDEV}) co_return fail(found.error());
    }
    auto beyond = step(MountTable::kUnknown, Crossing::allowed);
    Result<Found> found = co_await std::move(beyond);
    if (!found) co_return fail(found.error());
    co_return enter(dir, std::move(*found));
}

FileSystem::Async<std::string> Passthrough::readlink(const Caller&, NodeId id) {
    TRY(Node* const node, nodes_->find(id));
    auto call = [fd = node->fd]() -> Result<std::string> {
        char target[kLinkBytesMax];
        const auto length = ::readlinkat(fd, "", target, sizeof target);
        if (length < 0) return fail(errno == ENOENT ? EINVAL : errno); // ENOENT: it is no symbolic link
        return std::string(target, static_cast<std::size_t>(length));
    };
    return run(OpClass::lookup, *node, call);
}

} // namespace viaduct::passthrough
