// SPDX-License-Identifier: Apache-2.0
//
// Waiting for what has no event of its own.  Where there is one (a pidfd, an eventfd, a log line of a
// Daemon), wait for that.
#pragma once

#include <chrono>
#include <thread>

namespace viaduct::test {

// Looks every millisecond; false when it is still not so after `limit`.
template <class Condition> bool wait_until(const Condition& condition, std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    while (!condition()) {
        if (std::chrono::steady_clock::now() >= deadline) return condition();
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return true;
}

} // namespace viaduct::test
