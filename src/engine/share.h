// SPDX-License-Identifier: Apache-2.0
//
// What answers a share's requests: the back end and the layers that its options ask for.
#pragma once

#include "config/serve_options.h"
#include "fs/file_system.h"

#include <memory>

namespace viaduct::engine {

// The outermost layer; each owns the one behind it.
Outcome<std::unique_ptr<fs::FileSystem>> open_share(const config::ServeOptions& options);

} // namespace viaduct::engine
