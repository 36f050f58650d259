// SPDX-License-Identifier: Apache-2.0
//
// Mounts that a test makes: in a mount namespace of the test program's own, so that none outlives it.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <cstddef>
#include <memory>
#include <string>

namespace viaduct::test {

// Gives the calling thread, and what it starts from now on, a mount namespace of its own.  Once per program;
// where that is not permitted, things stay as they are.
void use_private_mounts();

// A file of `bytes` with an ext4 on it.  Fails when there is no mkfs.ext4.
Outcome<std::string> make_ext4_image(std::size_t bytes);

// Makes a file of `bytes`, of which nothing is stored yet, and a file system of that type on it.  Fails when
// there is no mkfs of the type.
Outcome<void> make_image(const std::string& path, const std::string& type, std::size_t bytes);

// A loop device on a file, and its file system mounted.
class LoopMount {
public:
    // Fails where loop devices or mounts are not permitted: a reason to skip the test.
    static Outcome<std::unique_ptr<LoopMount>> mount(const std::string& image, const std::string& mountpoint,
                                                     const std::string& type = "ext4");
    ~LoopMount();
    LoopMount(const LoopMount&) = delete;
    LoopMount& operator=(const LoopMount&) = delete;

    const std::string& path() const noexcept { return mountpoint_; }

private:
    LoopMount(std::string mountpoint, Fd device)
        : mountpoint_(std::move(mountpoint)), device_(std::move(device)) {}
    std::string mountpoint_;
    Fd device_; // given up by the kernel with its last user (LO_FLAGS_AUTOCLEAR)
};

// A tmpfs, or a bind of another folder.
class Mount {
public:
    static Outcome<std::unique_ptr<Mount>> tmpfs(const std::string& mountpoint);
    static Outcome<std::unique_ptr<Mount>> bind(const std::string& from, const std::string& mountpoint);
    ~Mount();
    Mount(const Mount&) = delete;
    Mount& operator=(const Mount&) = delete;

private:
    explicit Mount(std::string mountpoint) : mountpoint_(std::move(mountpoint)) {}
    std::string mountpoint_;
};

} // namespace viaduct::test
