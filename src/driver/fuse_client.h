// SPDX-License-Identifier: Apache-2.0
//
// FUSE calls on a device, one at a time and waited for: what a test or a tool needs of a client.
//
// Any thread.  Names and handles are the caller's to forget and to release.
#pragma once

#include "driver/call.h"
#include "driver/device.h"
#include "fuse/protocol.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::driver {

struct DirectoryEntry {
    std::uint64_t ino = 0;
    std::uint64_t offset = 0; // where the listing goes on behind it
    std::uint32_t type = 0;   // DT_*
    std::string name;
    std::optional<fuse_entry_out> entry; // readdirplus
};

struct FuseClientOptions {
    // Request queue, from 0; none: by the CPU that the caller is on.
    std::optional<std::uint32_t> queue;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t pid = 1;
    std::chrono::milliseconds timeout{30'000};
};

class FuseClient {
public:
    static constexpr std::uint64_t kRoot = FUSE_ROOT_ID;
    static constexpr std::uint32_t kBytesMax = 1U << 20; // of a READ or WRITE

    // The device outlives the client.
    explicit FuseClient(Device& device, const FuseClientOptions& options = {})
        : device_(device), options_(options) {}
    // The same session, another queue or caller.
    FuseClient on_queue(std::uint32_t queue) const;
    FuseClient as(std::uint32_t uid, std::uint32_t gid) const;

    // INIT as a kernel sends it; `flags` of both halves (FUSE_INIT_EXT is added where needed).
    Result<fuse_init_out> init(std::uint64_t flags = kInitFlags, std::uint32_t minor = fuse::kMinor);
    Status destroy();

    Result<fuse_entry_out> lookup(std::uint64_t parent, std::string_view name);
    // Walks from the root; each name on the way has been looked up once.
    Result<fuse_entry_out> lookup_path(std::string_view path);
    Status forget(std::uint64_t node, std::uint64_t lookups = 1);
    Result<fuse_attr> getattr(std::uint64_t node);
    Result<fuse_attr> setattr(std::uint64_t node, const fuse_setattr_in& change);
    Result<fuse_kstatfs> statfs(std::uint64_t node = kRoot);

    Result<std::uint64_t> open(std::uint64_t node, std::uint32_t flags);
    struct Created {
        fuse_entry_out entry;
        std::uint64_t handle;
    };
    Result<Created> create(std::uint64_t parent, std::string_view name, std::uint32_t flags,
                           std::uint32_t mode);
    Status release(std::uint64_t node, std::uint64_t handle);
    Status flush(std::uint64_t node, std::uint64_t handle);
    Status fsync(std::uint64_t node, std::uint64_t handle, bool data_only = false);
    Result<std::string> read(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                             std::uint32_t bytes);
    Result<std::uint32_t> write(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                                std::string_view data);

    Result<std::uint64_t> opendir(std::uint64_t node);
    Result<std::vector<DirectoryEntry>> readdir(std::uint64_t node, std::uint64_t handle,
                                                std::uint64_t offset = 0, std::uint32_t bytes = 4096,
                                                bool plus = false);
    Status releasedir(std::uint64_t node, std::uint64_t handle);

    Result<fuse_entry_out> mkdir(std::uint64_t parent, std::string_view name, std::uint32_t mode);
    Result<fuse_entry_out> mknod(std::uint64_t parent, std::string_view name, std::uint32_t mode,
                                 std::uint32_t rdev);
    Result<fuse_entry_out> symlink(std::uint64_t parent, std::string_view name, std::string_view target);
    Result<fuse_entry_out> link(std::uint64_t node, std::uint64_t parent, std::string_view name);
    Result<std::string> readlink(std::uint64_t node);
    Status unlink(std::uint64_t parent, std::string_view name);
    Status rmdir(std::uint64_t parent, std::string_view name);
    Status rename(std::uint64_t parent, std::string_view name, std::uint64_t to_parent,
                  std::string_view to_name, std::uint32_t flags = 0);

    // A call of this caller with nothing else filled in.
    CallOptions call_options(std::uint32_t opcode, std::uint64_t node) const;
    Status interrupt(Call& call) { return call.interrupt(device_.memory(), device_.hiprio()); }
    // Sent, not waited for.  A call without a reply goes on hiprio.
    Result<std::shared_ptr<Call>> begin(const CallOptions& options);
    Result<std::shared_ptr<Call>> begin_read(std::uint64_t node, std::uint64_t handle, std::uint64_t offset,
                                             std::uint32_t bytes);
    // Sent and waited for: the reply's body.
    Result<std::vector<std::byte>> call(const CallOptions& options);

    // For a request put together elsewhere; even, and never twice in this process.
    static std::uint64_t next_unique() noexcept;

    RequestQueue& queue() const noexcept;
    Device& device() const noexcept { return device_; }

    // What a present kernel asks for and tests rely on; no ACLs, no id maps, no DAX.
    static constexpr std::uint64_t kInitFlags =
        FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_DONT_MASK | FUSE_AUTO_INVAL_DATA | FUSE_DO_READDIRPLUS |
        FUSE_READDIRPLUS_AUTO | FUSE_ASYNC_DIO | FUSE_PARALLEL_DIROPS | FUSE_ATOMIC_O_TRUNC | FUSE_MAX_PAGES |
        FUSE_HANDLE_KILLPRIV_V2 | FUSE_INIT_EXT;

private:
    template <class T> Result<T> call_for(const CallOptions& options);
    Status call_for_nothing(const CallOptions& options);

    Device& device_;
    FuseClientOptions options_;
};

// The entries of a READDIR or READDIRPLUS reply.  EIO: they run beyond its end.
Result<std::vector<DirectoryEntry>> decode_directory(std::span<const std::byte> bytes, bool plus);

} // namespace viaduct::driver
