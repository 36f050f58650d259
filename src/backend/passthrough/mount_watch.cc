// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mount_watch.h"

#include "backend/passthrough/host_calls.h"
#include "backend/passthrough/mounts.h"

#include <algorithm>
#include <fcntl.h>
#include <limits.h>
#include <optional>
#include <poll.h>
#include <string>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

constexpr const char* kMountinfo = "/proc/self/mountinfo";

std::optional<std::string> read_whole(const char* path) {
    const Fd file{::open(path, O_RDONLY | O_CLOEXEC)};
    if (!file) return std::nullopt;
    std::string text;
    char part[16384];
    while (true) {
        const ssize_t bytes = ::read(file.get(), part, sizeof part);
        if (bytes < 0 && errno == EINTR) continue;
        if (bytes < 0) return std::nullopt;
        if (bytes == 0) return text;
        text.append(part, static_cast<std::size_t>(bytes));
    }
}

std::string_view take_field(std::string_view& line) {
    const auto end = std::min(line.find(' '), line.size());
    const auto field = line.substr(0, end);
    line.remove_prefix(std::min(end + 1, line.size()));
    return field;
}

// mountinfo writes blank, tab, newline and backslash as a backslash and three octal digits.
std::string unescaped(std::string_view text) {
    std::string plain;
    for (std::size_t at = 0; at < text.size(); ++at) {
        if (text[at] == '\\' && at + 3 < text.size()) {
            plain += static_cast<char>((text[at + 1] - '0') * 64 + (text[at + 2] - '0') * 8 +
                                       (text[at + 3] - '0'));
            at += 3;
        } else {
            plain += text[at];
        }
    }
    return plain;
}

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
    while (!mountinfo.empty()) {
        const auto end = std::min(mountinfo.find('\n'), mountinfo.size());
        std::string_view line = mountinfo.substr(0, end);
        mountinfo.remove_prefix(std::min(end + 1, mountinfo.size()));
        // "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda1 rw"
        for (int skipped = 0; skipped < 4; ++skipped) take_field(line);
        const std::string point = unescaped(take_field(line));
        while (!line.empty() && take_field(line) != "-") {
        }
        if (is_remote_type(take_field(line)) && lies_below(point, folder)) return true;
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
    const auto mounts = read_whole(kMountinfo);
    if (!folder || !mounts || remote_below(*mounts, *folder)) return;
    // Not when mounts have changed meanwhile: what was read may be older.
    state_.compare_exchange_strong(state, state | kNone, std::memory_order_acq_rel,
                                   std::memory_order_relaxed);
}

} // namespace viaduct::passthrough
