// SPDX-License-Identifier: Apache-2.0
//
// `viaduct map`: the queue map of this or another machine.
#pragma once

#include "config/map_options.h"

#include <string>

namespace viaduct::engine {

// What the command prints.
Outcome<std::string> map_text(const config::MapCommand& command);

} // namespace viaduct::engine
