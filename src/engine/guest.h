// SPDX-License-Identifier: Apache-2.0
//
// `viaduct guest`: a daemon for the share, and the machine that mounts it.
#pragma once

#include "config/guest_options.h"

namespace viaduct::engine {

// The command's exit status.
Outcome<int> run_guest(const config::GuestCommand& command);

} // namespace viaduct::engine
