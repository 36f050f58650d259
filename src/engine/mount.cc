// SPDX-License-Identifier: Apache-2.0
#include "engine/mount.h"

#include "base/log.h"
#include "engine/mount_server.h"
#include "engine/notify.h"
#include "engine/process.h"

#include <cstdio>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

rt::Task<void> serve_until_done(rt::Worker& control, MountServer& server, Signals& signals,
                                std::function<void()> ready) {
    co_await server.serve(std::move(ready));
    signals.stop(control);
    control.stop();
}

} // namespace

Outcome<int> mount(const config::MountCommand& command) {
    const config::ServeOptions& options = command.share;
    log::set_level(*log::parse_level(options.log_level));
    Background background;
    if (command.background) {
        TRY(const auto status, Background::enter(background));
        if (status) return *status;
    }
    TRY_STATUS(set_file_limit(options.rlimit_nofile));
    TRY(auto signals, Signals::make()); // before any thread, so that all inherit the mask
    TRY(const auto control, rt::Worker::make({.name = "control", .ring = ring_kind(options.ring)}));
    TRY(const auto workers, Workers::start(options));
    TRY(const auto server, MountServer::make(command, *workers));
    ::umask(0); // modes are the client's; threads have their own umask where unshare(CLONE_FS) works
    if (options.syslog || command.background) log::to_syslog("viaduct");

    const Signals::Handlers handlers{.stop =
                                         [&] {
                                             notify_manager("STOPPING=1");
                                             server->stop(*control);
                                         },
                                     .stop_at_once =
                                         [&] {
                                             server->abort();
                                             ::_exit(1);
                                         },
                                     .log_stats = [&] { server->log_stats(); },
                                     .memory_lost = {}};
    const auto ready = [&] {
        notify_manager("READY=1");
        background.ready();
    };
    signals.watch(*control, handlers);
    control->gate().spawn(serve_until_done(*control, *server, signals, ready));
    control->run();
    const int status = server->data_lost() ? 1 : 0;
    if (server->hangs()) {
        std::fflush(nullptr);
        ::_exit(status); // the kernel ends what holds threads
    }
    return status;
}

} // namespace viaduct::engine
