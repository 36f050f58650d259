// SPDX-License-Identifier: Apache-2.0
//
// The CPUs that a thread may run on, as the kernel tells.
#pragma once

#include "topology/cpu_set.h"

#include <gtest/gtest.h>

#include <sched.h>
#include <sys/types.h>

namespace viaduct::test {

// Of this machine's CPUs none has a number of CPU_SETSIZE or more.
inline topology::CpuSet allowed_cpus(pid_t thread) {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    EXPECT_EQ(::sched_getaffinity(thread, sizeof mask, &mask), 0);
    topology::CpuSet cpus;
    for (topology::CpuId cpu = 0; cpu < CPU_SETSIZE; ++cpu)
        if (CPU_ISSET(cpu, &mask)) cpus.add(cpu);
    return cpus;
}

} // namespace viaduct::test
