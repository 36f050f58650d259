// SPDX-License-Identifier: Apache-2.0
//
// Options of a served device, and the two command lines that set them: `viaduct serve` and `viaductd`.
#pragma once

#include "base/result.h"
#include "config/command_line.h"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::config {

struct ServeOptions {
    std::string share;
    std::string socket_path; // empty: socket_fd
    int socket_fd = -1;      // already listening
    std::string socket_group;
    std::string tag;
    std::uint64_t queues = 64;  // request queues offered at most
    std::uint64_t workers = 0;  // 0: as many as CPUs this process may use, at most 4
    std::string cache = "auto"; // never, metadata, auto, always
    std::optional<std::chrono::milliseconds> entry_timeout; // in place of what `cache` says
    std::optional<std::chrono::milliseconds> attr_timeout;
    std::optional<std::chrono::milliseconds> negative_timeout;
    bool writeback = false;
    bool allow_mmap = false;
    bool xattr = false;
    bool posix_acl = false;                 // implies xattr
    bool security_label = false;            // the same
    std::string xattrmap;                   // rules of fs::XattrMap; empty: names stay as they are
    std::vector<std::string> translate_uid; // rules of fs::IdMap
    std::vector<std::string> translate_gid;
    bool readonly = false;
    bool posix_lock = false;          // fcntl locks are seen by the host and other clients
    bool flock = false;               // so are those of flock(2)
    std::string readdirplus = "auto"; // auto, on, off
    bool allow_direct_io = false;
    bool announce_submounts = true;
    bool killpriv_v2 = true;
    bool packed = true;
    bool keep_listening = true;
    std::string inline_calls = "auto"; // auto, always, never
    std::string ring = "auto";         // auto, io_uring, poll
    std::uint64_t poll_us = 0;
    std::uint64_t drain_timeout_ms = 10'000;
    std::uint64_t rlimit_nofile = 0; // 0: the hard limit
    std::string stats_file;          // written at the end of each connection
    std::string faults;              // rules of the delay-and-fault layer, for tests
    std::string log_level = "info";
    bool syslog = false;
};

struct ServeCommand {
    Request request = Request::run;
    bool print_capabilities = false;
    std::string help;
    ServeOptions options;
};

// The options that have to do with the share and the process, whatever the client is.
void add_share_options(CommandLine& line, ServeOptions& options);

// Options of the share that do not go together.
Outcome<void> check_share_options(const ServeOptions& options);

Outcome<ServeCommand> parse_serve(int argc, const char* const* argv);
// virtiofsd's command line; what it has and this program has not is refused by name.
Outcome<ServeCommand> parse_viaductd(int argc, const char* const* argv);

} // namespace viaduct::config
