// SPDX-License-Identifier: Apache-2.0
#include "guestvm/cpio.h"

#include "base/assert.h"

#include <array>
#include <cstdio>
#include <limits>
#include <sys/stat.h>
#include <utility>

namespace viaduct::guestvm {

void CpioWriter::directory(std::string_view path, unsigned permissions) {
    if (directories_.contains(path)) return;
    make_parents(path);
    directories_.emplace(path);
    append({.path = path, .contents = {}, .mode = S_IFDIR | permissions, .links = 2});
}

void CpioWriter::file(std::string_view path, std::string_view contents, unsigned permissions) {
    make_parents(path);
    append({.path = path, .contents = contents, .mode = S_IFREG | permissions});
}

void CpioWriter::symlink(std::string_view path, std::string_view target) {
    make_parents(path);
    append({.path = path, .contents = target, .mode = S_IFLNK | 0777});
}

void CpioWriter::character_device(std::string_view path, unsigned major, unsigned minor,
                                  unsigned permissions) {
    make_parents(path);
    append({.path = path,
            .contents = {},
            .mode = S_IFCHR | permissions,
            .device_major = major,
            .device_minor = minor});
}

std::string CpioWriter::finish() {
    append({.path = "TRAILER!!!", .contents = {}});
    pad(512);
    directories_.clear();
    inode_next_ = 1;
    return std::exchange(archive_, {});
}

void CpioWriter::make_parents(std::string_view path) {
    const auto slash = path.rfind('/');
    if (slash != std::string_view::npos) directory(path.substr(0, slash));
}

void CpioWriter::append(const Entry& entry) {
    ASSERT(entry.path.find('\0') == std::string_view::npos);
    ASSERT(entry.contents.size() <= std::numeric_limits<std::uint32_t>::max());
    // magic, inode, mode, uid, gid, links, mtime, size, device of the file (2), device it is (2), bytes of
    // the name with its NUL, checksum (unused); each of 8 hexadecimal digits.  uid, gid, mtime are 0.
    std::array<char, 6 + 13 * 8 + 1> header;
    std::snprintf(header.data(), header.size(), "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
                  inode_next_++, entry.mode, 0U, 0U, entry.links, 0U,
                  static_cast<std::uint32_t>(entry.contents.size()), 0U, 0U, entry.device_major,
                  entry.device_minor, static_cast<std::uint32_t>(entry.path.size() + 1), 0U);
    archive_.append(header.data(), header.size() - 1);
    archive_.append(entry.path).push_back('\0');
    pad(4);
    archive_.append(entry.contents);
    pad(4);
}

void CpioWriter::pad(std::size_t alignment) {
    archive_.append((alignment - archive_.size() % alignment) % alignment, '\0');
}

} // namespace viaduct::guestvm
