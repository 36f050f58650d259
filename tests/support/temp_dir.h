// SPDX-License-Identifier: Apache-2.0
//
// A folder for one test.  Mounts below it are not descended into when it is removed.
#pragma once

#include <string>
#include <string_view>

namespace viaduct::test {

class TempDir {
public:
    // Below $TMPDIR or /tmp.  Ends the test program when there is no room for a folder.
    TempDir();
    // Below `parent`.
    explicit TempDir(const std::string& parent);
    ~TempDir();
    TempDir(const TempDir&) = delete;
    TempDir& operator=(const TempDir&) = delete;

    const std::string& path() const noexcept { return path_; }
    std::string file(std::string_view name) const { return path_ + "/" + std::string{name}; }
    // A folder in it; its path.
    std::string make_folder(std::string_view name) const;
    // A file in it; its path.
    std::string write(std::string_view name, std::string_view contents) const;
    std::string read(std::string_view name) const;

private:
    std::string path_;
};

} // namespace viaduct::test
