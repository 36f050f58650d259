// SPDX-License-Identifier: Apache-2.0
#include "bench/server_cpu.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <unistd.h>

namespace viaduct::bench {
namespace {

// Threads that end while they are read, as a daemon's helpers and the kernel's ring workers do.
TEST(ServerCpu, threads_that_come_and_go_are_no_error) {
    std::atomic<bool> over = false;
    std::thread starting{[&over] {
        while (!over) std::thread{[] {}}.join();
    }};
    for (int round = 0; round < 2000; ++round) {
        const auto used = cpu_ns_of({::getpid()});
        EXPECT_TRUE(used) << used.error().name();
        if (!used) break;
    }
    over = true;
    starting.join();
}

TEST(ServerCpu, a_process_that_is_not_there_is_ESRCH) {
    EXPECT_EQ(cpu_ns_of({-1}), fail(ESRCH));
}

} // namespace
} // namespace viaduct::bench
