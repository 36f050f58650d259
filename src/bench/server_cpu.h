// SPDX-License-Identifier: Apache-2.0
//
// CPU time that a process has used, all threads together, in nanoseconds.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <sys/types.h>
#include <vector>

namespace viaduct::bench {

// Of the processes and their children, as /proc/PID/task/TID/schedstat tells.  A thread that runs right now
// is counted up to its last tick only: read it when the process is idle.  ESRCH: there is no such process;
// ENOENT: the kernel has no schedstat.
Result<std::uint64_t> cpu_ns_of(const std::vector<pid_t>& pids);

} // namespace viaduct::bench
