// SPDX-License-Identifier: Apache-2.0
#include "backend/passthrough/mountinfo.h"

#include "base/fd.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <unistd.h>

namespace viaduct::passthrough {
namespace {

std::string_view take_until(std::string_view& text, char separator) noexcept {
    const auto end = std::min(text.find(separator), text.size());
    const auto taken = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return taken;
}

} // namespace

std::optional<MountLine> MountLines::next() noexcept {
    if (rest_.empty()) return std::nullopt;
    std::string_view line = take_until(rest_, '\n');
    // "36 35 98:0 /root /point rw,noatime master:1 - ext3 /dev/sda1 rw"
    MountLine mount;
    const std::string_view id = take_until(line, ' ');
    std::from_chars(id.data(), id.data() + id.size(), mount.id);
    for (int skipped = 0; skipped < 3; ++skipped) take_until(line, ' ');
    mount.point = take_until(line, ' ');
    while (!line.empty() && take_until(line, ' ') != "-") {
    }
    mount.type = take_until(line, ' ');
    return mount;
}

std::optional<std::string> read_mountinfo() {
    const Fd file{::open(kMountinfo, O_RDONLY | O_CLOEXEC)};
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

} // namespace viaduct::passthrough
