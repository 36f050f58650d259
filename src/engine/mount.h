// SPDX-License-Identifier: Apache-2.0
//
// `viaduct mount`: a share as a file system of this host.
#pragma once

#include "config/mount_options.h"

namespace viaduct::engine {

// Mounts, and serves until it is unmounted (exit status 0) or a signal says so (0; 1 when written data may
// not have reached the share).  With `background`, the parent returns as soon as the mount can be used.  Ends
// the process itself when calls that never return would keep it from ending.
Outcome<int> mount(const config::MountCommand& command);

} // namespace viaduct::engine
