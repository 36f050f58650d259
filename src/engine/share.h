// SPDX-License-Identifier: Apache-2.0
//
// What answers a share's requests: the back end and the layers that its options ask for.
#pragma once

#include "config/serve_options.h"
#include "fs/file_system.h"

#include <memory>
#include <vector>

namespace viaduct::engine {

// Innermost first; each lives as long as those behind it.
using FileSystems = std::vector<std::unique_ptr<fs::FileSystem>>;

Outcome<FileSystems> open_share(const config::ServeOptions& options);

} // namespace viaduct::engine
