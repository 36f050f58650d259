// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/host_calls.h"

#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/syscall.h>

namespace viaduct::passthrough {
namespace {

timespec time_of(const statx_timestamp& stamp) noexcept {
    return {.tv_sec = stamp.tv_sec, .tv_nsec = static_cast<long>(stamp.tv_nsec)};
}

void fill(fs::Attr& attr, const struct statx& st) noexcept {
    attr.inode = st.stx_ino;
    attr.size = st.stx_size;
    attr.blocks = st.stx_blocks;
    attr.accessed = time_of(st.stx_atime);
    attr.modified = time_of(st.stx_mtime);
    attr.changed = time_of(st.stx_ctime);
    attr.has_born = (st.stx_mask & STATX_BTIME) != 0;
    if (attr.has_born) attr.born = time_of(st.stx_btime);
    attr.mode = st.stx_mode;
    attr.links = st.stx_nlink;
    attr.uid = st.stx_uid;
    attr.gid = st.stx_gid;
    attr.device_major = st.stx_rdev_major;
    attr.device_minor = st.stx_rdev_minor;
    attr.block_bytes = st.stx_blksize;
    attr.fs_major = st.stx_dev_major;
    attr.fs_minor = st.stx_dev_minor;
    attr.attributes = st.stx_attributes;
    attr.attributes_mask = st.stx_attributes_mask;
}

} // namespace

Result<Fd> open_child(int dir, const char* name, Crossing crossing) {
    open_how how{};
    how.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
    how.resolve = RESOLVE_NO_MAGICLINKS | (crossing == Crossing::refused ? RESOLVE_NO_XDEV : 0);
    const long fd = ::syscall(SYS_openat2, dir, name, &how, sizeof how);
    if (fd < 0) return fail(errno == EMFILE ? ENFILE : errno);
    return Fd{static_cast<int>(fd)};
}

Result<fs::Attr> attr_of(int fd) noexcept {
    struct statx st;
    if (::statx(fd, "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS | STATX_BTIME, &st) != 0)
        return fail(errno);
    Result<fs::Attr> attr;
    fill(*attr, st);
    return attr;
}

Result<void> stat_found(Found& found) noexcept {
    struct statx st;
    if (::statx(found.fd.get(), "", AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, kStatxMask, &st) != 0)
        return fail(errno);
    fill(found.attr, st);
    found.mount_id = st.stx_mnt_id;
    return {};
}

Result<void> stat_name(int dir, const char* name, bool sync, Found& found) noexcept {
    struct statx st;
    const int flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (sync ? 0 : AT_STATX_DONT_SYNC);
    if (::statx(dir, name, flags, kStatxMask, &st) != 0) return fail(errno);
    fill(found.attr, st);
    found.mount_id = st.stx_mnt_id;
    return {};
}

int missing_in(int dir) noexcept {
    struct statx st{};
    // Of a directory that has been removed nothing can be found; a link count of 0 says that it has.
    if (::statx(dir, "", AT_EMPTY_PATH, STATX_NLINK | STATX_TYPE, &st) == 0 && st.stx_nlink == 0)
        return ESTALE;
    return ENOENT;
}

namespace {

// Without OPEN_TREE_CLONE it is open(2) with O_PATH, of a descriptor's object where the path is empty, and
// asks for no capability.
int path_of(int fd) noexcept {
    return ::open_tree(fd, "", AT_EMPTY_PATH | OPEN_TREE_CLOEXEC);
}

} // namespace

Result<ProcFd> ProcFd::make(bool open_tree) {
    Fd dir{::open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC)};
    if (!dir) return fail(errno);
    if (open_tree) {
        const Fd probe{path_of(dir.get())};
        open_tree = static_cast<bool>(probe);
    }
    return ProcFd{std::move(dir), open_tree};
}

Result<Fd> ProcFd::open_path(int fd) const noexcept {
    if (!open_tree_) return open(fd, O_PATH);
    const int opened = path_of(fd);
    if (opened < 0) return fail(errno == EMFILE ? ENFILE : errno);
    return Fd{opened};
}

Result<Fd> ProcFd::open(int fd, int flags) const noexcept {
    const int opened = ::openat(dir_.get(), name(fd).bytes, flags | O_CLOEXEC | O_NOCTTY);
    if (opened < 0) return fail(errno == EMFILE ? ENFILE : errno);
    return Fd{opened};
}

ProcFd::Text ProcFd::name(int fd) noexcept {
    Text text;
    *std::to_chars(text.bytes, text.bytes + sizeof text.bytes - 1, fd).ptr = '\0';
    return text;
}

ProcFd::Text ProcFd::path(int fd) noexcept {
    constexpr char kPrefix[] = "/proc/self/fd/";
    Text text;
    std::memcpy(text.bytes, kPrefix, sizeof kPrefix - 1);
    *std::to_chars(text.bytes + sizeof kPrefix - 1, text.bytes + sizeof text.bytes - 1, fd).ptr = '\0';
    return text;
}

} // namespace viaduct::passthrough
