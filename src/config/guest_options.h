// SPDX-License-Identifier: Apache-2.0
//
// The command line of `viaduct guest`.
#pragma once

#include "base/result.h"
#include "config/command_line.h"

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct::config {

struct GuestCommand {
    Request request = Request::run;
    std::string help;
    std::string share;
    std::string socket; // of a daemon that runs already; empty: one is started for `share`
    std::uint64_t queues = 0;
    std::uint64_t cpus = 2;
    std::uint64_t memory_mb = 512;
    std::string kernel;
    std::string qemu;
    std::string accel = "auto";
    std::string root_disk;
    std::vector<std::string> environment;
    bool console = false;
    bool packed = false;
    bool allow_reboot = false;
    bool pass_stdin = false;
    std::uint64_t timeout_s = 0;
    std::string tag = "viaduct";
    std::string stats_file;
    std::vector<std::string> serve_options; // handed on to `viaduct serve`
    std::vector<std::string> command;
};

Outcome<GuestCommand> parse_guest(int argc, const char* const* argv);

} // namespace viaduct::config
