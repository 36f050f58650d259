// SPDX-License-Identifier: Apache-2.0
//
// The command line of `viaduct bench`.  Lists (kinds, sweeps) are words here; bench/plan.h reads them.
#pragma once

#include "base/result.h"
#include "config/command_line.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::config {

struct BenchCommand {
    Request request = Request::run;
    std::string help;
    std::string line; // as it was typed, from "viaduct bench" on

    bool compare = false;
    std::vector<std::string> servers; // SOCKET or NAME=SOCKET

    // What to do.
    std::string preset;             // empty: none
    std::string sweep;              // empty: none
    std::string kinds;              // empty: not given
    std::vector<std::string> mixes; // one row each
    // Given, they override what a preset says.
    std::optional<std::uint64_t> queues;
    std::optional<std::uint64_t> threads;
    std::optional<std::uint64_t> depth;
    std::optional<std::uint64_t> block_bytes;
    std::uint64_t segment_bytes = 4096;
    std::uint64_t file_bytes = 64ULL << 20;
    std::uint64_t entries = 100;     // of the folder that readdir lists
    std::string completion;          // poll, wait, threads; empty: not given
    std::string dispatch = "direct"; // direct, staged
    std::string affinity;            // on, off; empty: not given
    std::string queue_by = "thread"; // thread, cpu
    std::string cpus;                // empty: anywhere
    std::uint64_t uid = 0;
    std::uint64_t gid = 0;
    bool verify = false;

    // The device.
    std::uint64_t queue_size = 128;
    bool packed = false;
    bool event_idx = true;
    bool indirect = true;
    std::uint64_t memory_bytes = 256ULL << 20; // at least; more where the requests need it

    // How long.
    std::chrono::milliseconds time{1000};
    std::uint64_t count = 0; // operations of a run, instead of a time; 0: by time
    std::chrono::milliseconds ramp{200};
    std::uint64_t repetitions = 5;

    // What is measured beside it.
    std::string bare_folder; // empty: no bare call
    std::optional<std::uint64_t> bare_cpu;
    std::chrono::milliseconds bare_time{200};
    std::vector<std::string> server_pids; // PID or NAME=PID
    bool locality = false;
    std::string report; // empty: none
    std::string json;   // empty: none; "-": stdout, and no table
};

// argv[0] is "bench"; the word "compare" may follow.
Outcome<BenchCommand> parse_bench(int argc, const char* const* argv);

} // namespace viaduct::config
