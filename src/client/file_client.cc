// SPDX-License-Identifier: Apache-2.0
#include <viaduct/file_client.h>

#include "client/device_state.h"

#include <algorithm>
#include <cstring>

namespace viaduct::client {
namespace {

constexpr std::uint32_t kReaddirBytes = 32'768;
constexpr std::size_t kNameBytesMax = 1024; // FUSE_NAME_MAX of the kernel

std::timespec time_of(std::uint64_t seconds, std::uint32_t nanoseconds) {
    return {.tv_sec = static_cast<std::time_t>(seconds), .tv_nsec = static_cast<long>(nanoseconds)};
}

Attributes attributes_of(const fuse_attr& attr) {
    return {.inode = attr.ino,
            .size_bytes = attr.size,
            .blocks = attr.blocks,
            .access_time = time_of(attr.atime, attr.atimensec),
            .modify_time = time_of(attr.mtime, attr.mtimensec),
            .change_time = time_of(attr.ctime, attr.ctimensec),
            .mode = attr.mode,
            .links = attr.nlink,
            .uid = attr.uid,
            .gid = attr.gid,
            .device = attr.rdev,
            .block_bytes = attr.blksize};
}

// What a kernel refuses from a server.
bool is_name(std::string_view name) {
    if (name.empty() || name.size() > kNameBytesMax) return false;
    return name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

} // namespace

FileClient::FileClient(const Device& device, const Caller& caller) : state_(device.state_), caller_(caller) {}
FileClient::FileClient(FileClient&& other) noexcept = default;
FileClient& FileClient::operator=(FileClient&& other) noexcept = default;
FileClient::~FileClient() = default;

Result<Entry> FileClient::lookup(std::uint64_t parent, std::string_view name) {
    if (!is_name(name)) return refuse(EINVAL);
    const auto entry = state_->fuse_client(caller_).lookup(parent, name);
    if (!entry) return std::unexpected{error_of(entry.error())};
    // Node 0 is how a server says, for a while, that there is none.
    if (entry->nodeid == 0) return refuse(ENOENT);
    return Entry{
        .node = entry->nodeid, .generation = entry->generation, .attributes = attributes_of(entry->attr)};
}

Result<Entry> FileClient::lookup_path(std::string_view path) {
    const auto attributes = getattr(kRoot);
    if (!attributes) return std::unexpected{attributes.error()};
    Entry entry{.node = kRoot, .generation = 0, .attributes = *attributes};
    while (!path.empty()) {
        const std::string_view name = path.substr(0, path.find('/'));
        path.remove_prefix(std::min(name.size() + 1, path.size()));
        if (name.empty()) continue;
        const auto next = lookup(entry.node, name);
        // An error here is the device's; the next call meets it again.
        if (entry.node != kRoot) (void)forget(entry.node);
        if (!next) return std::unexpected{next.error()};
        entry = *next;
    }
    return entry;
}

Status FileClient::forget(std::uint64_t node, std::uint64_t lookups) {
    return translated(state_->fuse_client(caller_).forget(node, lookups));
}

Result<Attributes> FileClient::getattr(std::uint64_t node) {
    const auto attr = state_->fuse_client(caller_).getattr(node);
    if (!attr) return std::unexpected{error_of(attr.error())};
    return attributes_of(*attr);
}

Result<std::string> FileClient::readlink(std::uint64_t node) {
    return translated(state_->fuse_client(caller_).readlink(node));
}

Result<FileSystemStatus> FileClient::statfs(std::uint64_t node) {
    const auto status = state_->fuse_client(caller_).statfs(node);
    if (!status) return std::unexpected{error_of(status.error())};
    return FileSystemStatus{.blocks = status->blocks,
                            .blocks_free = status->bfree,
                            .blocks_available = status->bavail,
                            .files = status->files,
                            .files_free = status->ffree,
                            .block_bytes = status->bsize,
                            .fragment_bytes = status->frsize,
                            .name_bytes_max = status->namelen};
}

Result<std::uint64_t> FileClient::open(std::uint64_t node, int flags) {
    return translated(state_->fuse_client(caller_).open(node, static_cast<std::uint32_t>(flags)));
}

Status FileClient::release(std::uint64_t node, std::uint64_t handle) {
    return translated(state_->fuse_client(caller_).release(node, handle));
}

Result<std::size_t> FileClient::read(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                                     std::span<std::byte> into) {
    driver::FuseClient client = state_->fuse_client(caller_);
    const std::size_t bytes_max = state_->read_bytes_max.load(std::memory_order_relaxed);
    std::size_t read_bytes = 0;
    while (read_bytes < into.size()) {
        const std::size_t wanted = std::min(into.size() - read_bytes, bytes_max);
        const auto sent =
            client.begin_read(node, handle, offset + read_bytes, static_cast<std::uint32_t>(wanted));
        if (!sent) return std::unexpected{error_of(sent.error())};
        const auto data = (*sent)->wait(driver::after(state_->call_timeout));
        if (!data) return std::unexpected{error_of(data.error())};
        if (data->empty()) break;
        std::memcpy(into.data() + read_bytes, data->data(), data->size());
        read_bytes += data->size();
        if (data->size() < wanted) break; // the end of the file
    }
    return read_bytes;
}

Result<std::uint64_t> FileClient::opendir(std::uint64_t node) {
    return translated(state_->fuse_client(caller_).opendir(node));
}

Result<std::vector<DirectoryEntry>> FileClient::readdir(std::uint64_t node, std::uint64_t handle,
                                                        std::uint64_t offset) {
    auto entries = state_->fuse_client(caller_).readdir(node, handle, offset, kReaddirBytes);
    if (!entries) return std::unexpected{error_of(entries.error())};
    std::vector<DirectoryEntry> result;
    result.reserve(entries->size());
    for (driver::DirectoryEntry& entry : *entries) {
        if (!is_name(entry.name)) return refuse(EIO);
        result.push_back({.inode = entry.ino,
                          .next_offset = entry.offset,
                          .type = entry.type,
                          .name = std::move(entry.name)});
    }
    return result;
}

Status FileClient::releasedir(std::uint64_t node, std::uint64_t handle) {
    return translated(state_->fuse_client(caller_).releasedir(node, handle));
}

} // namespace viaduct::client
