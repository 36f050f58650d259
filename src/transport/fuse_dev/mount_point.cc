// SPDX-License-Identifier: Apache-2.0
#include "transport/fuse_dev/mount_point.h"

#include "transport/fuse_dev/fusermount.h"

#include <climits>
#include <cstdlib>
#include <dirent.h>
#include <fcntl.h>
#include <optional>
#include <sys/mount.h>
#include <sys/stat.h>

namespace viaduct::transport {
namespace {

constexpr const char* kNoDeviceHint =
    "load the module (modprobe fuse), or pass the device to the container (--device /dev/fuse)";

struct Identity {
    std::uint32_t major;
    std::uint32_t minor;
    std::uint64_t inode;
    friend bool operator==(const Identity&, const Identity&) = default;
};

// Without asking a file system's server: the directory may be on another mount of FUSE.
std::optional<struct statx> look(const std::string& path, unsigned mask) {
    struct statx st{};
    if (::statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT, mask, &st) != 0)
        return std::nullopt;
    return st;
}

std::optional<Identity> identity_of(const std::string& path) {
    const auto st = look(path, STATX_INO);
    if (!st) return std::nullopt;
    return Identity{st->stx_dev_major, st->stx_dev_minor, st->stx_ino};
}

// Opening it says more than looking: a mount whose daemon is gone is seen, and what is in it.
Outcome<void> check_directory(const std::string& path) {
    const std::string what = "cannot mount at \"" + path + "\"";
    DIR* const directory = ::opendir(path.c_str());
    if (directory == nullptr) {
        if (errno == ENOENT) return failure(what, Errno{errno}, "create it: mkdir -p " + path);
        if (errno == ENOTDIR) return failure(what + ": it is not a directory; give an empty one");
        if (errno == ENOTCONN || errno == ECONNABORTED)
            return failure(what +
                           ": the daemon of the file system that is mounted there is gone; unmount it "
                           "first: umount " +
                           path);
        if (errno == EACCES) return failure(what, Errno{errno}, "this user may not look into it");
        return failure(what, Errno{errno});
    }
    int entries = 0;
    while (entries <= 2 && ::readdir(directory) != nullptr) ++entries;
    ::closedir(directory);
    if (entries > 2)
        return failure(what +
                       ": it is not empty, and what is in it would be hidden; give an empty directory");
    return {};
}

// fusermount3 would say less.
Outcome<void> check_device() {
    if (::access("/dev/fuse", F_OK) == 0) return {};
    return failure("there is no /dev/fuse", Errno{errno}, kNoDeviceHint);
}

Outcome<Fd> open_device() {
    Fd device{::open("/dev/fuse", O_RDWR | O_CLOEXEC | O_NONBLOCK)};
    if (device) return device;
    if (errno == ENOENT || errno == ENODEV || errno == ENXIO)
        return failure("there is no /dev/fuse", Errno{errno}, kNoDeviceHint);
    return failure("cannot open /dev/fuse", Errno{errno},
                   "a container needs the device passed (--device /dev/fuse)");
}

unsigned long flags_of(const MountPointOptions& options) {
    unsigned long flags = 0;
    if (options.read_only) flags |= MS_RDONLY;
    if (!options.suid) flags |= MS_NOSUID;
    if (!options.dev) flags |= MS_NODEV;
    if (!options.exec) flags |= MS_NOEXEC;
    if (options.noatime) flags |= MS_NOATIME;
    return flags;
}

Outcome<Fd> mount_as_root(const MountPointOptions& options) {
    TRY(Fd device, open_device());
    std::string data = "fd=" + std::to_string(device.get()) +
                       ",rootmode=40000,user_id=" + std::to_string(::geteuid()) +
                       ",group_id=" + std::to_string(::getegid()) + ",default_permissions";
    if (options.allow_other) data += ",allow_other";
    if (options.max_read_bytes > 0) data += ",max_read=" + std::to_string(options.max_read_bytes);
    if (::mount(options.source.c_str(), options.path.c_str(), "fuse.viaduct", flags_of(options),
                data.c_str()) == 0)
        return device;
    const int error = errno;
    const std::string what = "cannot mount at \"" + options.path + "\"";
    if (error == EPERM)
        return failure(what, Errno{error},
                       "mounting needs CAP_SYS_ADMIN; a container has it when it is privileged");
    if (error == EBUSY) return failure(what, Errno{error}, "it is in use as a mount point; choose another");
    if (error == ENODEV) return failure(what, Errno{error}, "this kernel has no FUSE; modprobe fuse");
    return failure(what, Errno{error});
}

} // namespace

bool lies_within(const std::string& directory, const std::string& ancestor) {
    const auto wanted = identity_of(ancestor);
    if (!wanted) return false;
    std::string here = directory;
    auto present = identity_of(here);
    while (present) {
        if (*present == *wanted) return true;
        here += "/..";
        const auto parent = identity_of(here);
        if (parent == present) return false; // the root
        present = parent;
    }
    return false;
}

Outcome<MountPoint> MountPoint::mount(const MountPointOptions& options) {
    TRY_STATUS(check_directory(options.path));
    char resolved[PATH_MAX];
    if (::realpath(options.path.c_str(), resolved) == nullptr)
        return failure("cannot mount at \"" + options.path + "\"", Errno{errno});
    MountPointOptions found = options;
    found.path = resolved;
    MountPoint made;
    made.path_ = resolved;
    made.by_fusermount_ = ::geteuid() != 0;
    if (made.by_fusermount_) {
        TRY_STATUS(check_device());
        TRY(made.device_, fusermount(found));
    } else {
        TRY(made.device_, mount_as_root(found));
    }
    if (const auto st = look(made.path_, STATX_MNT_ID)) made.mount_id_ = st->stx_mnt_id;
    return made;
}

bool MountPoint::mounted() const noexcept {
    const auto st = look(path_, STATX_MNT_ID);
    return st && st->stx_mnt_id == mount_id_;
}

Status MountPoint::detach(bool abort) const {
    if (!mounted()) return {};
    if (by_fusermount_) return fusermount_detach(path_);
    if (::umount2(path_.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW | (abort ? MNT_FORCE : 0)) != 0)
        return fail(errno);
    return {};
}

Status MountPoint::sync() const {
    if (!mounted()) return {};
    const Fd root{::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (!root || ::syncfs(root.get()) != 0) return fail(errno);
    // The kernel has put the data into requests and does not wait for them; this one comes behind them.
    struct statx st{};
    if (::statx(root.get(), "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC, STATX_SIZE, &st) != 0)
        return fail(errno);
    return {};
}

} // namespace viaduct::transport
