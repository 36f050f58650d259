// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mount_watch.h"

#include "backend/passthrough/host_calls.h"
#include "backend/passthrough/mountinfo.h"
#include "backend/passthrough/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

bool lies_below(std::string_view path, std::string_view folder) {
    if (folder == "/") return path != "/";
    return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

// Where the share is now; folders can be renamed.  nullopt: at no place that mountinfo would name.
std::optional<std::string> path_of(int share) {
    char path[PATH_MAX];
    const ssize_t length = ::readlink(ProcFd::path(share).bytes, path, sizeof path);
    if (length <= 0 || length == sizeof path || path[0] != '/') return std::nullopt;
    return std::string(path, static_cast<std::size_t>(length));
}

} // namespace

bool remote_below(std::string_view mountinfo, std::string_view folder) {
    MountLines lines{mountinfo};
    while (const auto mount = lines.next()) {
        if (is_remote_type(mount->type) && lies_below(unescaped(mount->point), folder)) return true;
    }
    return false;
}

MountWatch::MountWatch(int share)
    : share_(::fcntl(share, F_DUPFD_CLOEXEC, 0)), mountinfo_(::open(kMountinfo, O_RDONLY | O_CLOEXEC)) {
    look();
}

bool MountWatch::changed() noexcept {
    if (!mountinfo_) return false;
    pollfd event{.fd = mountinfo_.get(), .events = POLLPRI, .revents = 0};
    // The kernel tells each change once, to whoever asks first.
    if (::poll(&event, 1, 0) <= 0 || (event.revents & POLLPRI) == 0) return false;
    std::uint64_t state = state_.load(std::memory_order_relaxed);
    while (!state_.compare_exchange_weak(state, (state & ~kNone) + 2, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
    }
    return true;
}

void MountWatch::look() {
    if (!mountinfo_) return;
    std::uint64_t state = state_.load(std::memory_order_acquire);
    const auto folder = path_of(share_.get());
    const auto mounts = read_mountinfo();
    if (!folder || !mounts || remote_below(*mounts, *folder)) return;
    // Not when mounts have changed meanwhile: what was read may be older.
    state_.compare_exchange_strong(state, state | kNone, std::memory_order_acq_rel,
                                   std::memory_order_relaxed);
}

} // namespace viaduct::passthrough
