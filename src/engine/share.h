// SPDX-License-Identifier: Apache-2.0
//
// What answers a share's requests: the back end and the layers that its options ask for.
#pragma once

#include "config/serve_options.h"
#include "fs/file_system.h"

#include <memory>
#include <string>

namespace viaduct::engine {

// Can the directory be shared at all?  The failure says what to do.
Outcome<void> check_share(const std::string& path);
// The outermost layer; each owns the one behind it.
Outcome<std::unique_ptr<fs::FileSystem>> open_share(const config::ServeOptions& options);

} // namespace viaduct::engine
