// SPDX-License-Identifier: Apache-2.0
//
// The command line of `viaduct mount`.
#pragma once

#include "base/result.h"
#include "config/serve_options.h"

#include <cstdint>
#include <string>

namespace viaduct::config {

struct MountCommand {
    Request request = Request::run;
    std::string help;
    ServeOptions share; // share, and what add_share_options() sets
    std::string mountpoint;
    bool background = false;
    std::uint64_t stop_timeout_ms = 10'000;
    // What the kernel is told.
    bool allow_other = false;
    bool suid = false;
    bool dev = false;
    bool exec = true;
    bool noatime = false;
    std::uint32_t max_read_bytes = 0; // 0: what the kernel likes
};

Outcome<MountCommand> parse_mount(int argc, const char* const* argv);

} // namespace viaduct::config
