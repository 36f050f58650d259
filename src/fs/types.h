// SPDX-License-Identifier: Apache-2.0
//
// The small types that a back end and its callers share.  Nothing here knows FUSE's wire format.
#pragma once

#include "base/result.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace viaduct::fs {

// An object the client holds a lookup count on.  Root is 1; others carry a table index and a generation.
enum class NodeId : std::uint64_t {};
inline constexpr NodeId kRootNode{1};

// What makes two names one node.
struct NodeIdentity {
    std::uint64_t mount_id = 0;
    std::uint64_t inode = 0;
    std::uint64_t born_ns = 0; // an inode number used again has another; 0 where the file system has none
    std::uint32_t device = 0;

    friend bool operator==(const NodeIdentity&, const NodeIdentity&) = default;
};

// An open file or directory.
enum class HandleId : std::uint64_t {};

// The name of a directory entry: 1 to 255 bytes, any but '/' and NUL; "." and ".." are no names.
class Name {
public:
    static constexpr std::size_t kBytesMax = 255;

    // EINVAL: empty, ".", "..", or a byte no name may have; ENAMETOOLONG: over 255 bytes.
    static Result<Name> make(std::string_view text);

    const char* c_str() const noexcept { return bytes_.data(); }
    std::string_view view() const noexcept { return {bytes_.data(), length_}; }
    Name(const Name& other) noexcept { *this = other; }
    Name& operator=(const Name& other) noexcept {
        length_ = other.length_;
        std::memcpy(bytes_.data(), other.bytes_.data(), length_ + 1U);
        return *this;
    }

private:
    Name() noexcept {}
    std::uint8_t length_ = 0;
    std::array<char, kBytesMax + 1> bytes_; // NUL-terminated; bytes behind the NUL are not set
};

// The extended attribute by which a security module knows an object.
struct SecurityLabel {
    std::string name;
    std::vector<std::byte> value;
};

// On whose behalf a call is made.
struct Caller {
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t pid = 0;
    // Where something is made: the parent's group, if it is one of the caller's other groups.
    std::optional<std::uint32_t> supplementary = std::nullopt;
    // ... and what it is labelled with; outlives the call.
    const SecurityLabel* label = nullptr;
};

struct Attr {
    std::uint64_t inode = 0;
    std::uint64_t size = 0;   // bytes
    std::uint64_t blocks = 0; // of 512 bytes
    timespec accessed{};
    timespec modified{};
    timespec changed{};
    timespec born{}; // zero where has_born is false
    bool has_born = false;
    std::uint32_t mode = 0; // type and permissions
    std::uint32_t links = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t device_major = 0; // of a device node
    std::uint32_t device_minor = 0;
    std::uint32_t block_bytes = 0; // preferred I/O size
    std::uint32_t fs_major = 0;    // device number of the file system it is on
    std::uint32_t fs_minor = 0;
    std::uint64_t attributes = 0; // STATX_ATTR_*
    std::uint64_t attributes_mask = 0;
};

// How long the client may believe what it was told.
using Validity = std::chrono::nanoseconds;

struct AttrReply {
    Attr attr;
    Validity attr_valid{};
};

// What a lookup gives.  The client now holds one more lookup count on `node`.
struct Entry {
    NodeId node{};
    Attr attr;
    Validity entry_valid{};
    Validity attr_valid{};
    bool submount = false; // the root of another file system than its parent's
};

// How the client should treat an opened file.
struct Opened {
    HandleId handle{};
    bool direct_io = false;
    bool keep_cache = false;
    bool cache_dir = false;
    bool parallel_direct_writes = false;
};

struct Created {
    Entry entry;
    Opened opened;
};

// Which attributes to set; absent ones are left alone.
struct SetAttr {
    enum Field : std::uint32_t {
        mode_field = 1U << 0,
        uid_field = 1U << 1,
        gid_field = 1U << 2,
        size_field = 1U << 3,
        accessed_field = 1U << 4,
        modified_field = 1U << 5,
        accessed_now = 1U << 6,
        modified_now = 1U << 7,
        handle_field = 1U << 8,   // `handle` is valid: act on it, not on the node
        kill_suid_sgid = 1U << 9, // drop set-id bits as a write by an ordinary user would
        changed_field = 1U << 10,
    };
    std::uint32_t fields = 0;
    HandleId handle{};
    std::uint32_t mode = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint64_t size = 0;
    timespec accessed{};
    timespec modified{};

    bool has(Field field) const noexcept { return (fields & field) != 0; }
};

struct WriteOptions {
    bool cached = false; // a page written back by the client's kernel: no caller to speak of, offset counts
    bool kill_suid_sgid = false;
    // O_APPEND as it stands at the client now, which F_SETFL may have changed; absent: as the file was
    // opened.
    std::optional<bool> append = std::nullopt;
};

// As statvfs(3); sizes in units of fragment_bytes.
struct FsStat {
    std::uint64_t blocks = 0;
    std::uint64_t blocks_free = 0;
    std::uint64_t blocks_available = 0;
    std::uint64_t files = 0;
    std::uint64_t files_free = 0;
    std::uint32_t block_bytes = 0;
    std::uint32_t fragment_bytes = 0;
    std::uint32_t name_bytes_max = 0;
};

} // namespace viaduct::fs
