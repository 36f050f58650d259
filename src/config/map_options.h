// SPDX-License-Identifier: Apache-2.0
//
// The command line of `viaduct map`.
#pragma once

#include "base/result.h"
#include "config/command_line.h"

#include <cstdint>
#include <string>

namespace viaduct::config {

struct MapCommand {
    Request request = Request::run;
    std::string help;
    std::string topology; // a description or the path of an XML file; empty: this machine
    std::uint64_t queues = 0;
    std::string policy = "even"; // even, modulo
    bool clusters = false;
    bool json = false;
};

Outcome<MapCommand> parse_map(int argc, const char* const* argv);

} // namespace viaduct::config
