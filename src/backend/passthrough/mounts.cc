// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mounts.h"

#include "backend/passthrough/mountinfo.h"
#include "base/log.h"

#include <algorithm>
#include <fcntl.h>
#include <optional>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/vfs.h>

namespace viaduct::passthrough {
namespace {

constexpr std::array<std::string_view, 23> kRemoteTypes{
    "9p",       "afs",       "autofs", "beegfs", "ceph",   "cifs",   "coda",    "davfs",
    "gfs2",     "glusterfs", "gpfs",   "lustre", "ncpfs",  "nfs",    "nfs4",    "ocfs2",
    "orangefs", "prl_fs",    "pvfs2",  "smb3",   "vboxsf", "vmhgfs", "virtiofs"};

// For mounts that mountinfo does not show (detached ones): f_type of statfs(2), from <linux/magic.h> and the
// file systems' own sources.
constexpr std::array<std::uint32_t, 16> kRemoteMagics{
    0x65735546 /* FUSE */, 0x6969 /* NFS */,        0x517b /* SMB */,          0xff534d42 /* CIFS */,
    0xfe534d42 /* SMB2 */, 0x00c36400 /* Ceph */,   0x01021997 /* 9P */,       0x5346414f /* AFS */,
    0x6b414653 /* kAFS */, 0x0bd00bd0 /* Lustre */, 0x47504653 /* GPFS */,     0x7461636f /* OCFS2 */,
    0x01161970 /* GFS2 */, 0x73757245 /* Coda */,   0x20030528 /* OrangeFS */, 0x6a656a63 /* virtiofs */};

constexpr std::uint32_t kOverlayMagic = 0x794c7630;
constexpr std::uint32_t kEcryptfsMagic = 0xf15f;

// The type of the mount with that (not unique) id, from mountinfo; nullopt when it is not shown.
std::optional<std::string> type_from_mountinfo(std::uint64_t id) {
    const auto text = read_mountinfo();
    if (!text) return std::nullopt;
    MountLines lines{*text};
    while (const auto mount = lines.next()) {
        if (mount->id == id && !mount->type.empty()) return std::string{mount->type};
    }
    return std::nullopt;
}

struct Kind {
    bool remote = true;
    bool stacked = false;
};

// Waits for the server of a network mount.
Kind kind_of(int fd) {
    struct statx st{};
    if (::statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) == 0)
        if (const auto type = type_from_mountinfo(st.stx_mnt_id))
            return {.remote = is_remote_type(*type), .stacked = *type == "overlay" || *type == "ecryptfs"};
    struct statfs fs{};
    if (::fstatfs(fd, &fs) != 0) return {};
    const auto magic = static_cast<std::uint32_t>(fs.f_type);
    return {.remote = std::ranges::find(kRemoteMagics, magic) != kRemoteMagics.end(),
            .stacked = magic == kOverlayMagic || magic == kEcryptfsMagic};
}

} // namespace

bool is_remote_type(std::string_view type) noexcept {
    return type.starts_with("fuse") || std::ranges::find(kRemoteTypes, type) != kRemoteTypes.end();
}

std::uint64_t voluntary_switches() noexcept {
    rusage usage{};
    ::getrusage(RUSAGE_THREAD, &usage);
    return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

std::uint16_t MountTable::resolve(int fd, std::uint64_t mount_id, std::uint32_t device) {
    const auto find = [this, mount_id, device](std::uint16_t count) -> std::uint16_t {
        for (std::uint16_t number = kUnknown + 1; number < count; ++number)
            if (mounts_[number].id == mount_id && mounts_[number].device == device) return number;
        return kOverflow;
    };
    // Acquire: pairs with the release below.
    if (const auto known = find(count_.load(std::memory_order_acquire))) return known;
    const Kind kind = kind_of(fd);

    const sync::Lock lock{mutex_};
    const std::uint16_t count = count_.load(std::memory_order_relaxed);
    if (const auto known = find(count)) return known;
    if (count == kMountsMax) {
        // TODO(perf): sweep the node table for mounts that nothing lies on any more, and use their places.
        if (!std::exchange(warned_, true))
            log::warn("over {} mounts seen below one share; new ones are served by helpers only", kMountsMax);
        return kOverflow;
    }
    mounts_[count].id = mount_id;
    mounts_[count].device = device;
    mounts_[count].remote = kind.remote;
    mounts_[count].stacked = kind.stacked;
    count_.store(static_cast<std::uint16_t>(count + 1), std::memory_order_release);
    return count;
}

bool MountTable::away_is_over(Mount& mount, OpClass op, std::uint64_t away_until_ns) noexcept {
    if (monotonic_ns() < away_until_ns) return false;
    of(mount, op).away_until_ns.store(0, std::memory_order_relaxed);
    return true;
}

void MountTable::was_slow(std::uint16_t number, OpClass op) noexcept {
    Mount::Class& state = of(mounts_[number], op);
    state.fast_calls.store(0, std::memory_order_relaxed);
    state.away_until_ns.store(monotonic_ns() + kAwayNs, std::memory_order_relaxed);
}

// Time by the clock alone proves nothing: it holds preemption, and the wait for this worker's next pass.
void MountTable::ran_away(std::uint16_t number, OpClass op, Took took) noexcept {
    Mount& mount = mounts_[number];
    if (mount.remote || op == OpClass::whole) return;
    Mount::Class& state = of(mount, op);
    if (state.away_until_ns.load(std::memory_order_relaxed) == 0) return; // this one call had to wait
    if (took.ns > kSlowNs && took.slept) {
        was_slow(number, op);
    } else if (took.ns > kFastNs) {
        state.fast_calls.store(0, std::memory_order_relaxed);
    } else if (state.fast_calls.fetch_add(1, std::memory_order_relaxed) + 1 >= kFastCallsToReturn) {
        state.fast_calls.store(0, std::memory_order_relaxed);
        state.away_until_ns.store(0, std::memory_order_relaxed);
    }
}

} // namespace viaduct::passthrough
