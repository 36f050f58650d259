// SPDX-License-Identifier: Apache-2.0
//
// Waiting for what has no event of its own.  Where there is one (a pidfd, an eventfd, a log line of a
// Daemon), wait for that.
#pragma once

#include <chrono>
#include <thread>

namespace viaduct::test {

// For what must happen, and happens as soon as the machine gets to it: whoever has waited that long has found
// a hang.  Waited out only by a test that fails, so it is long enough for an emulated or overloaded machine.
inline constexpr std::chrono::seconds kPatience{60};

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
