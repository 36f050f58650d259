// SPDX-License-Identifier: Apache-2.0
//
// Serving a share as a process: limits, signals, workers, the control thread.
#pragma once

#include "config/serve_options.h"

namespace viaduct::engine {

// Serves until the front end leaves (without keep_listening: exit status 0) or a signal says so (exit status
// `status_on_signal`).  Ends the process itself when calls that never return would keep it from ending.
Outcome<int> serve(const config::ServeOptions& options, int status_on_signal);

} // namespace viaduct::engine
