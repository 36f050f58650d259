// SPDX-License-Identifier: Apache-2.0
#include "support/mounts.h"

#include "guestvm/process.h"
#include "support/temp_dir.h"

#include <cstring>
#include <fcntl.h>
#include <linux/loop.h>
#include <mutex>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>

namespace viaduct::test {
namespace {

// A device that is taken by somebody else between the asking and the taking: ask again.
constexpr int kLoopTriesMax = 50;

Outcome<Fd> attach_loop(const std::string& image, std::string& device_path) {
    const Fd control{::open("/dev/loop-control", O_RDWR | O_CLOEXEC)};
    if (!control) return failure("/dev/loop-control", Errno{errno});
    const Fd file{::open(image.c_str(), O_RDWR | O_CLOEXEC)};
    if (!file) return failure(image, Errno{errno});
    for (int count = 0; count < kLoopTriesMax; ++count) {
        const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
        if (number < 0) return failure("LOOP_CTL_GET_FREE", Errno{errno});
        device_path = "/dev/loop" + std::to_string(number);
        Fd device{::open(device_path.c_str(), O_RDWR | O_CLOEXEC)};
        if (!device) return failure(device_path, Errno{errno});
        loop_config config{};
        config.fd = static_cast<std::uint32_t>(file.get());
        config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
        if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) return device;
        if (errno != EBUSY) return failure("LOOP_CONFIGURE", Errno{errno});
    }
    return failure("no loop device is free");
}

} // namespace

void use_private_mounts() {
    static std::once_flag once;
    std::call_once(once, [] {
        if (::unshare(CLONE_NEWNS) < 0) return;
        ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    });
}

Outcome<std::string> make_ext4_image(std::size_t bytes) {
    const TempDir folder;
    const std::string image = folder.write("image", "");
    if (::truncate(image.c_str(), static_cast<off_t>(bytes)) < 0) return failure(image, Errno{errno});
    TRY(auto child, guestvm::Child::start({.argv = {"mkfs.ext4", "-q", "-F", image}, .kept_fds = {}}));
    if (const int status = child.wait(); status != 0)
        return failure("mkfs.ext4 ends with status " + std::to_string(status));
    return folder.read("image");
}

Outcome<void> make_image(const std::string& path, const std::string& type, std::size_t bytes) {
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)};
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return failure(path, Errno{errno});
    const std::string force = type == "ext4" ? "-F" : "-f";
    TRY(auto child, guestvm::Child::start({.argv = {"mkfs." + type, "-q", force, path}, .kept_fds = {}}));
    if (const int status = child.wait(); status != 0)
        return failure("mkfs." + type + " ends with status " + std::to_string(status));
    return {};
}

Outcome<std::unique_ptr<LoopMount>> LoopMount::mount(const std::string& image, const std::string& mountpoint,
                                                     const std::string& type) {
    use_private_mounts();
    std::string path;
    TRY(Fd device, attach_loop(image, path));
    if (::mount(path.c_str(), mountpoint.c_str(), type.c_str(), MS_NOATIME, nullptr) < 0)
        return failure("mount " + path, Errno{errno});
    return std::unique_ptr<LoopMount>{new LoopMount{mountpoint, std::move(device)}};
}

LoopMount::~LoopMount() {
    if (::umount2(mountpoint_.c_str(), 0) < 0) ::umount2(mountpoint_.c_str(), MNT_DETACH);
}

Outcome<std::unique_ptr<Mount>> Mount::tmpfs(const std::string& mountpoint) {
    use_private_mounts();
    if (::mount("tmpfs", mountpoint.c_str(), "tmpfs", 0, "mode=0755") < 0)
        return failure("mount tmpfs at " + mountpoint, Errno{errno});
    return std::unique_ptr<Mount>{new Mount{mountpoint}};
}

Outcome<std::unique_ptr<Mount>> Mount::bind(const std::string& from, const std::string& mountpoint) {
    use_private_mounts();
    if (::mount(from.c_str(), mountpoint.c_str(), nullptr, MS_BIND, nullptr) < 0)
        return failure("bind " + from + " to " + mountpoint, Errno{errno});
    return std::unique_ptr<Mount>{new Mount{mountpoint}};
}

Mount::~Mount() {
    ::umount2(mountpoint_.c_str(), MNT_DETACH);
}

} // namespace viaduct::test
