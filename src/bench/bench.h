// SPDX-License-Identifier: Apache-2.0
//
// `viaduct bench`: loads on vhost-user-fs devices, and what they cost.
#pragma once

#include "base/result.h"
#include "config/bench_options.h"

namespace viaduct::bench {

// The exit status: 1 when a request failed or --verify found something.
Outcome<int> run_bench(const config::BenchCommand& command);

} // namespace viaduct::bench
