// SPDX-License-Identifier: Apache-2.0
//
// What `viaduct bench` will do, made of its command line: on which devices, which loads, how often.
#pragma once

#include "base/result.h"
#include "config/bench_options.h"
#include "driver/device.h"
#include "driver/load.h"

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

namespace viaduct::bench {

// A device under load.
struct Target {
    std::string name; // in what is printed
    std::string socket;
    std::vector<pid_t> pids; // empty: whoever listens on the socket
};

struct Plan {
    std::vector<Target> targets;
    std::vector<driver::LoadOptions> points; // one row each
    driver::DeviceOptions device;            // but for the socket
    driver::LoadLimit limit;
    std::chrono::milliseconds ramp{};
    unsigned repetitions = 1;
    std::string bare_folder; // empty: the bare call is not measured
    int bare_cpu = -1;
    std::chrono::milliseconds bare_time{};
    bool compare = false;
    bool locality = false; // columns for it
    std::string command;   // as it was typed
    std::string report;    // path of the page; empty: none
    std::string json;      // empty: none; "-": stdout
};

// Mistakes: one sentence that names the option; status 2.
Outcome<Plan> make_plan(const config::BenchCommand& command);

// Memory that a device must share for these loads, its rings included.
std::uint64_t memory_needed(const std::vector<driver::LoadOptions>& points,
                            const driver::DeviceOptions& device);

} // namespace viaduct::bench
