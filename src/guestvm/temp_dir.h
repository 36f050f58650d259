// SPDX-License-Identifier: Apache-2.0
//
// A folder for what lives only as long as one run: made with mkdtemp, removed with everything in it.
#pragma once

#include "base/result.h"

#include <string>

namespace viaduct::guestvm {

class TempDir {
public:
    // Below $TMPDIR, or /tmp.
    static Outcome<TempDir> create();

    TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    TempDir& operator=(TempDir&&) = delete;
    ~TempDir();

    const std::string& path() const noexcept { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }

private:
    explicit TempDir(std::string path) noexcept : path_(std::move(path)) {}
    std::string path_;
};

} // namespace viaduct::guestvm
