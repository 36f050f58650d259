// SPDX-License-Identifier: Apache-2.0
//
// What `--faults` says, read into rules of the delay-and-fault layer.
#pragma once

#include "base/result.h"
#include "fs/layers/faults.h"

#include <string>
#include <utility>
#include <vector>

namespace viaduct::engine {

using FaultRules = std::vector<std::pair<fs::Faults::Operation, fs::Faults::Rule>>;

// "read:delay=500:calls=1,write:errno=ENOSPC": an operation of the FileSystem contract, then delay=MS,
// blocking, deaf, errno=NAME, short=BYTES, calls=N in any order.  A mistake gives one sentence; status 2.
Outcome<FaultRules> parse_fault_rules(const std::string& text);

} // namespace viaduct::engine
