// SPDX-License-Identifier: Apache-2.0
//
// The system calls through which a share is reached: one name at a time, relative to an O_PATH descriptor, so
// that no path, symbolic link or ".." of the client's is ever walked.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "fs/types.h"

#include <cstdint>
#include <sys/stat.h>

namespace viaduct::passthrough {

// Newer than the headers we build with: the mount id that is never used again (Linux 6.8; others ignore the
// bit).
inline constexpr unsigned kStatxMountIdUnique = 0x4000;
inline constexpr unsigned kStatxMask = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID | kStatxMountIdUnique;

// An object on the host, opened O_PATH.
struct Found {
    Fd fd;
    fs::Attr attr;
    std::uint64_t mount_id = 0;
    std::uint16_t mount = 0; // number in the mount table
};

// The kernel's own width: 12 bits of major, 20 of minor number.
inline std::uint32_t device_of(const fs::Attr& attr) noexcept {
    return attr.fs_major << 20 | attr.fs_minor;
}

// May the last step cross into another mount?  Such a step may wait for that mount's server.
enum class Crossing { refused, allowed };

// The child of that name.  EXDEV: it is a mount point, and crossing is refused.
Result<Fd> open_child(int dir, const char* name, Crossing crossing);

// Attributes of the object itself.
Result<fs::Attr> attr_of(int fd) noexcept;
Result<void> stat_found(Found& found) noexcept;

// Attributes of what has that name, without opening it.  Walks into a mount that lies on the name.
// `sync` false: as its file system knows them, without asking a server.
Result<void> stat_name(int dir, const char* name, bool sync, Found& found) noexcept;

// ESTALE instead of ENOENT where `dir` itself is gone: the client then looks its name up again.
int missing_in(int dir) noexcept;
inline Errno blame(int dir, int error) noexcept {
    return Errno{error == ENOENT ? missing_in(dir) : error};
}

// Re-opening what an O_PATH descriptor stands for.
class ProcFd {
public:
    // Holds /proc/self/fd.  `open_tree` false: as where a kernel or a seccomp profile has no open_tree(2).
    static Result<ProcFd> make(bool open_tree = true);

    // `flags` of open(2), without O_NOFOLLOW.  The object's type is known and fit to be opened.
    Result<Fd> open(int fd, int flags) const noexcept;
    // An O_PATH descriptor of the same object.  open_tree(2) needs no walk through /proc for it.
    Result<Fd> open_path(int fd) const noexcept;
    int dir() const noexcept { return dir_.get(); }

    // The decimal name of a descriptor in that directory, or its whole path for calls without an *at form.
    struct Text {
        char bytes[32];
    };
    static Text name(int fd) noexcept;
    static Text path(int fd) noexcept;

private:
    ProcFd(Fd dir, bool open_tree) noexcept : dir_(std::move(dir)), open_tree_(open_tree) {}
    Fd dir_;
    bool open_tree_;
};

} // namespace viaduct::passthrough
