// SPDX-License-Identifier: Apache-2.0
//
// MountPoint: a FUSE file system in this mount namespace, without anyone yet who answers.
//
// As root by mount(2); as another user through fusermount3, which is set-user-id root and hands the
// descriptor back.  Calls may block: not on a worker that serves the mount.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <cstdint>
#include <string>

namespace viaduct::transport {

struct MountPointOptions {
    std::string source; // as the mount table shows it
    std::string path;   // an empty directory
    bool read_only = false;
    bool allow_other = false; // let users in besides the one who mounts
    bool suid = false;
    bool dev = false;
    bool exec = true;
    bool noatime = false;
    std::uint32_t max_read_bytes = 0; // of one READ; 0: as many as the kernel likes
};

// Is `directory` the same as `ancestor`, or below it?
bool lies_within(const std::string& directory, const std::string& ancestor);

class MountPoint {
public:
    // Each failure is a sentence that says what to do.
    static Outcome<MountPoint> mount(const MountPointOptions& options);

    // /dev/fuse of this mount; does not block.
    Fd take_device() noexcept { return std::move(device_); }
    const std::string& path() const noexcept { return path_; }
    // Is it what stands at its path now?  false also when it was unmounted.
    bool mounted() const noexcept;
    // Takes it out of the tree; who uses it keeps it.  `abort`: all requests end first.  Nothing happens when
    // it is not mounted.
    Status detach(bool abort) const;
    // Has the kernel write back what is dirty.  Every request that carries it has been read when this
    // returns; who serves them knows when they have ended.
    Status sync() const;

private:
    MountPoint() = default;

    Fd device_;
    std::string path_; // absolute, without links
    std::uint64_t mount_id_ = 0;
    bool by_fusermount_ = false;
};

} // namespace viaduct::transport
