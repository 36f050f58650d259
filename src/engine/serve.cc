// SPDX-License-Identifier: Apache-2.0
#include "engine/serve.h"

#include "base/log.h"
#include "engine/process.h"
#include "engine/share_server.h"

#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

rt::Task<void> serve_until_done(rt::Worker& control, ShareServer& server, Signals& signals) {
    co_await server.serve();
    signals.stop(control);
    control.stop();
}

} // namespace

Outcome<int> serve(const config::ServeOptions& options, int status_on_signal) {
    log::set_level(*log::parse_level(options.log_level));
    if (options.syslog) log::to_syslog("viaduct");
    TRY_STATUS(set_file_limit(options.rlimit_nofile));
    TRY(auto signals, Signals::make()); // before any thread, so that all inherit the mask
    TRY(const auto control, rt::Worker::make({.name = "control", .ring = ring_kind(options.ring)}));
    TRY(const auto workers, Workers::start(options));
    TRY(const auto server, ShareServer::make(options, *workers));
    ::umask(0); // modes are the guest's; threads have their own umask where unshare(CLONE_FS) works

    const Signals::Handlers handlers{.stop = [&server = *server] { server.stop(); },
                                     .stop_at_once = [] { ::_exit(1); },
                                     .log_stats = [&server = *server] { server.log_stats(); },
                                     .memory_lost = [&server = *server] { server.check_memory(); }};
    signals.watch(*control, handlers);
    control->gate().spawn(serve_until_done(*control, *server, signals));
    control->run();
    const int status = signals.ended_by() == 0 ? 0 : status_on_signal;
    if (server->outliving() > 0) {
        log::warn("requests that never ended hold threads; the kernel ends them with the process");
        std::fflush(nullptr);
        ::_exit(status);
    }
    return status;
}

} // namespace viaduct::engine
