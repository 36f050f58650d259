// SPDX-License-Identifier: Apache-2.0
//
// Names to nodes.
#include "backend/passthrough/dispatch.h"

#include <unistd.h>

namespace viaduct::passthrough {
namespace {

constexpr std::size_t kLinkBytesMax = 4096; // PATH_MAX
// Some milliseconds: a server that was well when its file system was mounted answers from memory for longer
// than that.
constexpr std::uint64_t kTicksPerMountLook = 8'000'000;
// After that many names in a row that were unknown, one in kUnknownNamesPerTry is looked at in this way.
constexpr std::uint32_t kUnknownNamesMax = 16;
constexpr std::uint32_t kUnknownNamesPerTry = 16;

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
    TRY(const NodeId node, nodes_->intern(std::move(found.fd), facts));
    return entry_of(dir, node, found);
}

Entry Passthrough::entry_of(const Dir& dir, NodeId node, const Found& found) const noexcept {
    const std::uint32_t device = device_of(found.attr);
    Entry entry{.node = node, .attr = found.attr, .entry_valid = entry_valid_, .attr_valid = attr_valid_};
    entry.attr.inode = fold(found.attr.inode, device);
    entry.submount = S_ISDIR(found.attr.mode) && (found.mount_id != dir.mount_id || device != dir.device);
    return entry;
}

// statx(2) walks into whatever is mounted on a name, and waits for its server.
bool Passthrough::may_stat_names(WorkerState& state) {
    MountWatch& watch = *core_->mount_watch;
    const std::uint64_t now = ticks();
    if (now - state.mounts_looked_ticks > kTicksPerMountLook) {
        state.mounts_looked_ticks = now;
        if (watch.changed()) look_at_mounts();
    }
    return watch.none_remote();
}

// A node that is known already, found by what statx(2) says of the name: one system call, where opening it to
// find that it is known takes three.  nullopt: it has to be opened.
std::optional<Result<Entry>> Passthrough::lookup_known(const Dir& dir, const char* name) {
    WorkerState& state = states_.here();
    // A client that walks through a tree for the first time knows none of its names.
    if (state.unknown_names > kUnknownNamesMax) {
        ++state.unknown_names;
        if (state.unknown_names % kUnknownNamesPerTry != 0) return std::nullopt;
    }
    if (!may_stat_names(state)) return std::nullopt;
    // Before the name is looked at, see find_known().
    const std::uint32_t made = nodes_->made();
    const Mount& mount = core_->mounts.at(dir.mount);
    Found found;
    if (const auto status = stat_name(dir.fd, name, mount.stacked || mount.remote, found); !status) {
        if (status.error() != Errno{ENOENT}) return std::nullopt;
        state.unknown_names = 0;
        return fail(blame(dir.fd, ENOENT));
    }
    if (found.mount_id != dir.mount_id) return std::nullopt;
    const auto node = nodes_->find_known(facts_of(found).identity, made);
    if (!node) {
        ++state.unknown_names;
        return std::nullopt;
    }
    state.unknown_names = 0;
    return entry_of(dir, *node, found);
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
        if (auto known = lookup_known(dir, name.c_str())) {
            ended_inline(OpClass::lookup, dir.mount);
            return std::move(*known);
        }
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
