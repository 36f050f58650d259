// SPDX-License-Identifier: Apache-2.0
//
// Whole files in and out, for start-up code.
#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace viaduct::guestvm {

Result<std::string> read_file(const std::string& path);
// Creates or replaces.
Status write_file(const std::string& path, std::string_view contents);
bool exists(const std::string& path);

// $XDG_CACHE_HOME/viaduct or ~/.cache/viaduct; made if need be, empty when there is none to write to.
std::string cache_dir();

} // namespace viaduct::guestvm
