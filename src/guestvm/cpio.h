// SPDX-License-Identifier: Apache-2.0
//
// Writer of cpio archives in the "newc" form, the one that Linux unpacks as its initramfs.
//
// The kernel takes several archives after one another; finish() pads so that they can be appended.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

namespace viaduct::guestvm {

class CpioWriter {
public:
    // Paths are relative ("bin/busybox").  Folders above a path are made when they were not named before.
    void directory(std::string_view path, unsigned permissions = 0755);
    void file(std::string_view path, std::string_view contents, unsigned permissions = 0644);
    void symlink(std::string_view path, std::string_view target);
    void character_device(std::string_view path, unsigned major, unsigned minor, unsigned permissions = 0600);

    // The archive, with its trailer, padded to 512 bytes.  The writer is empty afterwards.
    std::string finish();

private:
    struct Entry {
        std::string_view path;
        std::string_view contents;
        unsigned mode = 0;
        unsigned links = 1;
        unsigned device_major = 0;
        unsigned device_minor = 0;
    };
    void make_parents(std::string_view path);
    void append(const Entry& entry);
    void pad(std::size_t alignment);

    std::string archive_;
    std::set<std::string, std::less<>> directories_;
    std::uint32_t inode_next_ = 1;
};

} // namespace viaduct::guestvm
