// SPDX-License-Identifier: Apache-2.0
//
// Command line of viaduct-load.
#pragma once

#include "base/result.h"
#include "driver/device.h"
#include "driver/load.h"

#include <chrono>
#include <string>
#include <sys/types.h>
#include <vector>

namespace viaduct::bench {

struct LoadCommand {
    bool help = false;
    driver::DeviceOptions device;
    driver::LoadOptions load;               // what all runs have in common
    std::vector<driver::LoadOptions> kinds; // one for each kind asked for
    driver::LoadLimit limit;
    std::chrono::milliseconds ramp{200};
    int repetitions = 5;
    std::string bare_folder; // empty: the bare call is not measured
    int bare_cpu = -1;
    std::chrono::milliseconds bare_time{200};
    std::vector<pid_t> server_pids; // empty: whoever listens on the socket
    std::string name;               // of the server, in the report
    std::string json_path;          // empty: no JSON; "-": stdout
};

const char* load_help();
Outcome<LoadCommand> parse_load(int argc, char** argv);

} // namespace viaduct::bench
