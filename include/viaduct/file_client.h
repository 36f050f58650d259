// SPDX-License-Identifier: Apache-2.0
//
// Files of a device: one call at a time, sent on the queue of the caller's CPU and waited for.
//
// What a tool needs to list and to read; for many requests at once see Device.  The errors of each call are
// those of the server (an errno), of Device::submit(), of Completion, and timed_out after
// DeviceOptions::call_timeout. io_error also stands for a reply that is too short or holds what it may not.
//
// Threads: any number at once on one client.  A client may outlive its Device and then answers not_connected.
#pragma once

#include <viaduct/device.h>
#include <viaduct/result.h>

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::client {

// struct fuse_attr.
struct Attributes {
    std::uint64_t inode = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t blocks = 0; // of 512 bytes
    std::timespec access_time{};
    std::timespec modify_time{};
    std::timespec change_time{};
    std::uint32_t mode = 0; // S_IF* and permissions
    std::uint32_t links = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t device = 0;
    std::uint32_t block_bytes = 0;
};

// struct fuse_entry_out: a node that the server remembers until forget().
struct Entry {
    std::uint64_t node = 0;
    std::uint64_t generation = 0;
    Attributes attributes;
};

// struct fuse_dirent.
struct DirectoryEntry {
    std::uint64_t inode = 0;
    std::uint64_t next_offset = 0; // where readdir() goes on behind it
    std::uint32_t type = 0;        // DT_*
    std::string name;              // 1 to 1024 bytes, neither '/' nor NUL among them
};

// struct fuse_kstatfs.
struct FileSystemStatus {
    std::uint64_t blocks = 0; // of fragment_bytes, as the next two
    std::uint64_t blocks_free = 0;
    std::uint64_t blocks_available = 0;
    std::uint64_t files = 0;
    std::uint64_t files_free = 0;
    std::uint32_t block_bytes = 0;
    std::uint32_t fragment_bytes = 0;
    std::uint32_t name_bytes_max = 0;
};

// On whose behalf calls are made.
struct Caller {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t pid = 1;
};

class FileClient {
public:
    static constexpr std::uint64_t kRoot = 1; // node of the root, known without a lookup

    // Of a device whose session has begun.
    explicit FileClient(const Device& device, const Caller& caller = {});
    FileClient(FileClient&& other) noexcept;
    FileClient& operator=(FileClient&& other) noexcept;
    ~FileClient();

    // `name`: one component.  Each success counts one lookup, which forget() takes back.
    Result<Entry> lookup(std::uint64_t parent, std::string_view name);
    // Component by component from the root; the empty path and "/" are the root.  Symbolic links are not
    // followed. The nodes on the way are forgotten again; the last one is the caller's to forget, unless it
    // is the root.
    Result<Entry> lookup_path(std::string_view path);
    // Sent on hiprio; waits until the device has taken it.  The root is never forgotten.
    Status forget(std::uint64_t node, std::uint64_t lookups = 1);
    Result<Attributes> getattr(std::uint64_t node);
    Result<std::string> readlink(std::uint64_t node);
    Result<FileSystemStatus> statfs(std::uint64_t node = kRoot);

    // A handle, to be given to read() and release().  `flags`: O_*.
    Result<std::uint64_t> open(std::uint64_t node, int flags);
    Status release(std::uint64_t node, std::uint64_t handle);
    // How many bytes were read; less than `into` holds only at the end of the file.  A large read is several
    // requests, one after another; memory of the device as large as one of them is taken for it.
    Result<std::size_t> read(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                             std::span<std::byte> into);

    // A handle, to be given to readdir() and releasedir().
    Result<std::uint64_t> opendir(std::uint64_t node);
    // The entries from `offset` on (0: the first, then next_offset of the last one), as many as one reply
    // holds; none at the end.  "." and ".." are among them if the server has them.
    Result<std::vector<DirectoryEntry>> readdir(std::uint64_t node, std::uint64_t handle,
                                                std::uint64_t offset);
    Status releasedir(std::uint64_t node, std::uint64_t handle);

private:
    std::shared_ptr<DeviceState> state_;
    Caller caller_;
};

} // namespace viaduct::client
