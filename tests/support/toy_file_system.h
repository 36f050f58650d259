// SPDX-License-Identifier: Apache-2.0
//
// A FileSystem in a few maps, for tests of what lies above it.
//
// One directory with files, symlinks and empty directories in it.  Counts what a client holds, so that a test
// can see whether everything was given back.  Not for use by several threads, but for calls that change
// nothing.
#pragma once

#include "fs/file_system.h"

#include <algorithm>
#include <map>
#include <string>
#include <sys/stat.h>

namespace viaduct::test {

class ToyFileSystem : public fs::FileSystem {
public:
    static constexpr std::size_t kFileBytesMax = 1U << 20;
    static constexpr std::size_t kNodesMax = 4096;

    struct Node {
        std::uint32_t mode = 0;
        std::vector<std::byte> data; // of a symlink: its target
        std::map<std::string, std::vector<std::byte>> xattrs;
        std::uint64_t lookups = 0;
        std::uint64_t uid = 0;
    };

    ToyFileSystem() { nodes_[1] = {.mode = S_IFDIR | 0755}; }

    // Makes a file without any lookup count.
    std::uint64_t add_file(const std::string& name, std::string_view content = {}) {
        const std::uint64_t id = make(name, S_IFREG | 0644);
        const auto* const first = reinterpret_cast<const std::byte*>(content.data());
        nodes_[id].data.assign(first, first + content.size());
        return id;
    }
    Node& node(std::uint64_t id) { return nodes_.at(id); }
    std::uint64_t lookups_held() const {
        std::uint64_t sum = 0;
        for (const auto& [id, node] : nodes_) sum += node.lookups;
        return sum;
    }
    std::size_t handles_open() const { return handles_.size(); }
    std::uint32_t sessions_ended() const { return sessions_ended_; }

    Async<fs::Entry> lookup(const fs::Caller&, fs::NodeId parent, const fs::Name& name) override {
        TRY_STATUS(check_root(parent));
        const auto found = names_.find(std::string{name.view()});
        if (found == names_.end()) return fail(ENOENT);
        return entry(found->second);
    }
    void forget(fs::NodeId id, std::uint64_t count) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return;
        found->second.lookups -= std::min(found->second.lookups, count);
    }

    Async<fs::AttrReply> getattr(const fs::Caller&, fs::NodeId id, std::optional<fs::HandleId>) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        return fs::AttrReply{.attr = attr_of(number(id), found->second),
                             .attr_valid = std::chrono::seconds{1}};
    }
    Async<fs::AttrReply> setattr(const fs::Caller& caller, fs::NodeId id,
                                 const fs::SetAttr& change) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        if (change.has(fs::SetAttr::size_field)) {
            if (change.size > kFileBytesMax) return fail(EFBIG);
            found->second.data.resize(change.size);
        }
        if (change.has(fs::SetAttr::mode_field))
            found->second.mode = (found->second.mode & S_IFMT) | (change.mode & 07777U);
        return getattr(caller, id, std::nullopt);
    }
    Async<std::string> readlink(const fs::Caller&, fs::NodeId id) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        return std::string(reinterpret_cast<const char*>(found->second.data.data()),
                           found->second.data.size());
    }

    Async<fs::Entry> symlink(const fs::Caller&, fs::NodeId parent, const fs::Name& name,
                             std::string target) override {
        auto made = make_entry(parent, name, S_IFLNK | 0777);
        if (!made) return made;
        const auto* const first = reinterpret_cast<const std::byte*>(target.data());
        node(number(made->node)).data.assign(first, first + target.size());
        return made;
    }
    Async<fs::Entry> mknod(const fs::Caller&, fs::NodeId parent, const fs::Name& name, std::uint32_t mode,
                           std::uint32_t, std::uint32_t umask) override {
        return make_entry(parent, name, mode & ~umask);
    }
    Async<fs::Entry> mkdir(const fs::Caller&, fs::NodeId parent, const fs::Name& name, std::uint32_t mode,
                           std::uint32_t umask) override {
        return make_entry(parent, name, S_IFDIR | (mode & ~umask));
    }
    Async<void> unlink(const fs::Caller&, fs::NodeId parent, const fs::Name& name) override {
        TRY_STATUS(check_root(parent));
        if (names_.erase(std::string{name.view()}) == 0) return fail(ENOENT);
        return Status{};
    }
    Async<void> rmdir(const fs::Caller& caller, fs::NodeId parent, const fs::Name& name) override {
        return unlink(caller, parent, name);
    }
    Async<void> rename(const fs::Caller&, fs::NodeId parent, const fs::Name& name, fs::NodeId new_parent,
                       const fs::Name& new_name, std::uint32_t flags) override {
        TRY_STATUS(check_root(parent));
        TRY_STATUS(check_root(new_parent));
        if (flags != 0) return fail(EINVAL);
        const auto found = names_.find(std::string{name.view()});
        if (found == names_.end()) return fail(ENOENT);
        const std::uint64_t id = found->second;
        names_.erase(found);
        names_[std::string{new_name.view()}] = id;
        return Status{};
    }
    Async<fs::Entry> link(const fs::Caller&, fs::NodeId id, fs::NodeId new_parent,
                          const fs::Name& new_name) override {
        TRY_STATUS(check_root(new_parent));
        if (!nodes_.contains(number(id))) return fail(ESTALE);
        if (!names_.emplace(new_name.view(), number(id)).second) return fail(EEXIST);
        return entry(number(id));
    }

    Async<fs::Opened> open(const fs::Caller&, fs::NodeId id, std::uint32_t, bool) override {
        return open_node(number(id), false);
    }
    Async<fs::Created> create(const fs::Caller&, fs::NodeId parent, const fs::Name& name, std::uint32_t,
                              std::uint32_t mode, std::uint32_t umask, bool kill_suid_sgid) override {
        created_killing_ = kill_suid_sgid;
        auto made = make_entry(parent, name, S_IFREG | (mode & ~umask));
        if (!made) return fail(made.error());
        return fs::Created{.entry = *made, .opened = *open_node(number(made->node), false)};
    }
    Async<fs::Created> tmpfile(const fs::Caller&, fs::NodeId parent, std::uint32_t, std::uint32_t mode,
                               std::uint32_t umask) override {
        TRY_STATUS(check_root(parent));
        if (nodes_.size() >= kNodesMax) return fail(ENOSPC);
        const std::uint64_t id = next_++;
        nodes_[id] = {.mode = S_IFREG | (mode & ~umask)};
        return fs::Created{.entry = entry(id), .opened = *open_node(id, false)};
    }
    Async<std::size_t> read(const fs::Caller&, fs::HandleId handle, std::uint64_t offset,
                            Segments into) override {
        TRY(Node* const open, file_of(handle));
        if (offset >= open->data.size()) return std::size_t{0};
        return SegmentWriter{into}.write(open->data.data() + offset, open->data.size() - offset);
    }
    Async<std::size_t> write(const fs::Caller&, fs::HandleId handle, std::uint64_t offset, Segments from,
                             fs::WriteOptions) override {
        TRY(Node* const open, file_of(handle));
        const std::size_t bytes = segments_bytes(from);
        if (offset > kFileBytesMax || bytes > kFileBytesMax - offset) return fail(EFBIG);
        if (open->data.size() < offset + bytes) open->data.resize(offset + bytes);
        return SegmentReader{from}.copy(open->data.data() + offset, bytes);
    }
    Async<void> flush(const fs::Caller&, fs::HandleId handle) override { return check(handle); }
    Async<void> fsync(const fs::Caller&, fs::HandleId handle, bool) override { return check(handle); }
    Async<void> release(fs::HandleId handle) override { return close(handle); }
    Async<void> fallocate(const fs::Caller&, fs::HandleId handle, std::uint32_t mode, std::uint64_t offset,
                          std::uint64_t bytes) override {
        TRY(Node* const open, file_of(handle));
        if (mode != 0) return fail(EOPNOTSUPP);
        if (offset > kFileBytesMax || bytes > kFileBytesMax - offset) return fail(EFBIG);
        open->data.resize(std::max<std::size_t>(open->data.size(), offset + bytes));
        return Status{};
    }
    Async<std::uint64_t> lseek(const fs::Caller&, fs::HandleId handle, std::uint64_t offset,
                               std::uint32_t) override {
        TRY(Node* const open, file_of(handle));
        if (offset >= open->data.size()) return fail(ENXIO);
        return offset;
    }
    Async<std::size_t> copy_file_range(const fs::Caller&, fs::HandleId from, std::uint64_t from_offset,
                                       fs::HandleId to, std::uint64_t to_offset, std::uint64_t bytes,
                                       std::uint64_t flags) override {
        TRY(const Node* const source, file_of(from));
        TRY(Node* const target, file_of(to));
        if (flags != 0) return fail(EINVAL);
        if (from_offset >= source->data.size()) return std::size_t{0};
        const auto count = static_cast<std::size_t>(std::min(bytes, source->data.size() - from_offset));
        if (to_offset > kFileBytesMax || count > kFileBytesMax - to_offset) return fail(EFBIG);
        const std::vector<std::byte> copied(source->data.begin() + static_cast<std::ptrdiff_t>(from_offset),
                                            source->data.begin() +
                                                static_cast<std::ptrdiff_t>(from_offset + count));
        target->data.resize(std::max<std::size_t>(target->data.size(), to_offset + count));
        std::ranges::copy(copied, target->data.begin() + static_cast<std::ptrdiff_t>(to_offset));
        return count;
    }

    Async<fs::Opened> opendir(const fs::Caller&, fs::NodeId id) override {
        return open_node(number(id), true);
    }
    Async<void> readdir(const fs::Caller&, fs::HandleId handle, std::uint64_t offset, bool plus,
                        fs::DirentSink& sink) override {
        TRY_STATUS(check(handle));
        std::uint64_t at = 0;
        if (at++ >= offset && !sink.add({.name = ".", .inode = 1, .next_offset = at, .type = 4}, nullptr))
            return Status{};
        for (const auto& [name, id] : names_) {
            if (at++ < offset) continue;
            if (!sink.has_room(name.size())) return Status{};
            const fs::DirentSink::Dirent dirent{
                .name = name, .inode = id, .next_offset = at, .type = node(id).mode >> 12U};
            if (!plus || name == lookup_fails_for_) {
                if (!sink.add(dirent, nullptr)) return Status{};
                continue;
            }
            const fs::Entry looked_up = entry(id);
            if (!sink.add(dirent, &looked_up)) {
                forget(looked_up.node, 1);
                return Status{};
            }
            if (name == fails_after_) return fail(EIO);
        }
        return Status{};
    }
    Async<void> fsyncdir(const fs::Caller&, fs::HandleId handle, bool) override { return check(handle); }
    Async<void> releasedir(fs::HandleId handle) override { return close(handle); }

    Async<fs::FsStat> statfs(const fs::Caller&, fs::NodeId) override {
        return fs::FsStat{.blocks = 100,
                          .files = nodes_.size(),
                          .block_bytes = 4096,
                          .fragment_bytes = 4096,
                          .name_bytes_max = 255};
    }
    Async<void> syncfs(const fs::Caller&, fs::NodeId) override { return Status{}; }
    Async<void> access(const fs::Caller&, fs::NodeId, std::uint32_t) override { return Status{}; }

    Async<void> setxattr(const fs::Caller&, fs::NodeId id, std::string name, std::span<const std::byte> value,
                         std::uint32_t) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        if (found->second.xattrs.size() >= 16) return fail(ENOSPC);
        found->second.xattrs[name].assign(value.begin(), value.end());
        return Status{};
    }
    Async<std::size_t> getxattr(const fs::Caller&, fs::NodeId id, std::string name,
                                std::span<std::byte> into) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        const auto xattr = found->second.xattrs.find(name);
        if (xattr == found->second.xattrs.end()) return fail(ENODATA);
        return put(xattr->second, into);
    }
    Async<std::size_t> listxattr(const fs::Caller&, fs::NodeId id, std::span<std::byte> into) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        std::vector<std::byte> list;
        for (const auto& [name, value] : found->second.xattrs) {
            for (const char c : name) list.push_back(static_cast<std::byte>(c));
            list.push_back(std::byte{0});
        }
        return put(list, into);
    }
    Async<void> removexattr(const fs::Caller&, fs::NodeId id, std::string name) override {
        const auto found = nodes_.find(number(id));
        if (found == nodes_.end()) return fail(ESTALE);
        if (found->second.xattrs.erase(name) == 0) return fail(ENODATA);
        return Status{};
    }

    void end_session() override {
        ++sessions_ended_;
        handles_.clear();
        for (auto& [id, node] : nodes_) node.lookups = 0;
    }

    std::string lookup_fails_for_; // readdirplus lists that name without a lookup
    std::string fails_after_;      // readdirplus fails behind that name
    bool created_killing_ = false; // what the latest create was told of set-id bits

private:
    static std::uint64_t number(fs::NodeId id) { return static_cast<std::uint64_t>(id); }

    static Status check_root(fs::NodeId parent) {
        if (parent != fs::kRootNode) return fail(ESTALE);
        return {};
    }
    std::uint64_t make(const std::string& name, std::uint32_t mode) {
        const std::uint64_t id = next_++;
        nodes_[id] = {.mode = mode};
        names_[name] = id;
        return id;
    }
    Result<fs::Entry> make_entry(fs::NodeId parent, const fs::Name& name, std::uint32_t mode) {
        TRY_STATUS(check_root(parent));
        if (nodes_.size() >= kNodesMax) return fail(ENOSPC);
        if (names_.contains(std::string{name.view()})) return fail(EEXIST);
        return entry(make(std::string{name.view()}, mode));
    }
    static fs::Attr attr_of(std::uint64_t id, const Node& node) {
        fs::Attr attr;
        attr.inode = id;
        attr.mode = node.mode;
        attr.size = node.data.size();
        attr.links = 1;
        attr.block_bytes = 4096;
        return attr;
    }
    fs::Entry entry(std::uint64_t id) {
        Node& found = nodes_.at(id);
        ++found.lookups;
        return {.node = fs::NodeId{id},
                .attr = attr_of(id, found),
                .entry_valid = std::chrono::seconds{1},
                .attr_valid = std::chrono::milliseconds{1500}};
    }
    Result<fs::Opened> open_node(std::uint64_t id, bool directory) {
        const auto found = nodes_.find(id);
        if (found == nodes_.end()) return fail(ESTALE);
        if (S_ISDIR(found->second.mode) != directory) return fail(directory ? ENOTDIR : EISDIR);
        if (handles_.size() >= kNodesMax) return fail(ENFILE);
        handles_[next_] = id;
        return fs::Opened{.handle = fs::HandleId{next_++}};
    }
    Result<Node*> file_of(fs::HandleId handle) {
        const auto found = handles_.find(static_cast<std::uint64_t>(handle));
        if (found == handles_.end()) return fail(EBADF);
        return &nodes_.at(found->second);
    }
    Status check(fs::HandleId handle) {
        TRY([[maybe_unused]] const Node* const open, file_of(handle));
        return {};
    }
    Status close(fs::HandleId handle) {
        if (handles_.erase(static_cast<std::uint64_t>(handle)) == 0) return fail(EBADF);
        return {};
    }
    static Result<std::size_t> put(const std::vector<std::byte>& value, std::span<std::byte> into) {
        if (into.empty()) return value.size();
        if (value.size() > into.size()) return fail(ERANGE);
        std::ranges::copy(value, into.begin());
        return value.size();
    }

    std::map<std::uint64_t, Node> nodes_;
    std::map<std::string, std::uint64_t> names_;
    std::map<std::uint64_t, std::uint64_t> handles_;
    std::uint64_t next_ = 2;
    std::uint32_t sessions_ended_ = 0;
};

} // namespace viaduct::test
