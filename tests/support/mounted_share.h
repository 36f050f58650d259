// SPDX-License-Identifier: Apache-2.0
//
// A folder, mounted at another place by `viaduct mount` for one test.
#pragma once

#include "support/daemon.h"
#include "support/mounts.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <memory>
#include <string>
#include <sys/mount.h>
#include <unistd.h>
#include <vector>

namespace viaduct::test {

// Why nothing can be mounted here; empty: it can.
inline std::string no_mounts_because() {
    if (::geteuid() != 0) return "mounting needs root";
    const Fd device{::open("/dev/fuse", O_RDWR | O_CLOEXEC)};
    if (!device) return "/dev/fuse: " + Errno{errno}.name();
    return {};
}

// The line of the mount table for a mount point; empty: nothing is mounted there.
inline std::string mount_line(const std::string& mountpoint) {
    std::ifstream table{"/proc/thread-self/mounts"};
    std::string found;
    for (std::string line; std::getline(table, line);)
        if (line.find(" " + mountpoint + " ") != std::string::npos) found = line; // the last one is on top
    return found;
}

class MountedShare {
public:
    MountedShare() { use_private_mounts(); }
    ~MountedShare() {
        // Whatever went wrong: no call may hang in it, and nothing stays.
        while (!mount_line(mountpoint_).empty() &&
               ::umount2(mountpoint_.c_str(), MNT_DETACH | MNT_FORCE) == 0) {
        }
        if (testing::Test::HasFailure() && daemon_) std::printf("%s", daemon_->log().c_str());
    }
    MountedShare(const MountedShare&) = delete;
    MountedShare& operator=(const MountedShare&) = delete;

    // `prefix`: words before the program, such as those of env(1).  true: it is mounted.
    [[nodiscard]] bool mount(const std::vector<std::string>& options = {},
                             std::vector<std::string> prefix = {}) {
        for (const auto& word : {program("viaduct"), std::string{"mount"}, share_, mountpoint_})
            prefix.push_back(word);
        prefix.insert(prefix.end(), options.begin(), options.end());
        auto started = Daemon::start({.argv = std::move(prefix), .socket = {}});
        if (!started) {
            ADD_FAILURE() << started.error().message;
            return false;
        }
        daemon_ = *std::move(started);
        return daemon_->wait_for_log("mounted /", std::chrono::seconds{60});
    }
    // As umount(8), without an option; the status.
    Status unmount() const {
        if (::umount2(mountpoint_.c_str(), 0) != 0) return fail(errno);
        return {};
    }

    Daemon& daemon() { return *daemon_; }
    const TempDir& folder() const noexcept { return folder_; }
    const std::string& share() const noexcept { return share_; }
    const std::string& mountpoint() const noexcept { return mountpoint_; }
    std::string in_share(std::string_view name) const { return share_ + "/" + std::string{name}; }
    std::string in_mount(std::string_view name) const { return mountpoint_ + "/" + std::string{name}; }

private:
    const TempDir folder_;
    const std::string share_ = folder_.make_folder("share");
    const std::string mountpoint_ = folder_.make_folder("mount");
    std::unique_ptr<Daemon> daemon_;
};

} // namespace viaduct::test
