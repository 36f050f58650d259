// SPDX-License-Identifier: Apache-2.0
#include "engine/serve.h"

#include "base/log.h"
#include "engine/share_server.h"
#include "vhost/memory_table.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

// Below this a share cannot be used for much: each node the guest knows holds a descriptor.
constexpr std::uint64_t kFilesWanted = 8192;
// Below this not even rings, queues and a few files fit.
constexpr std::uint64_t kFilesMin = 512;

Outcome<void> set_file_limit(std::uint64_t wanted) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return failure("cannot read RLIMIT_NOFILE", Errno{errno});
    limit.rlim_cur = wanted == 0 ? limit.rlim_max : wanted;
    limit.rlim_max = std::max(limit.rlim_max, limit.rlim_cur);
    if (limit.rlim_cur < kFilesMin)
        return failure("RLIMIT_NOFILE would be " + std::to_string(limit.rlim_cur) +
                       ", too small to serve with; at least " + std::to_string(kFilesMin) +
                       " are needed: raise it with --rlimit-nofile, ulimit -n or LimitNOFILE=");
    if (::setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return failure("--rlimit-nofile is \"" + std::to_string(wanted) + "\", which cannot be set",
                       Errno{errno},
                       "at most the hard limit of this process (ulimit -Hn) works without CAP_SYS_RESOURCE");
    if (limit.rlim_cur < kFilesWanted)
        log::warn(
            "RLIMIT_NOFILE is {}: guests that use more files than that at once get ENFILE; raise it with "
            "ulimit -n or LimitNOFILE=",
            limit.rlim_cur);
    return {};
}

// Signals and the SIGBUS guard's events, on the control thread.
class Signals {
public:
    static Outcome<Signals> make() {
        Signals made;
        sigset_t mask;
        sigemptyset(&mask);
        for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1}) sigaddset(&mask, signal);
        if (::pthread_sigmask(SIG_BLOCK, &mask, nullptr) != 0)
            return failure("cannot block signals", Errno{errno});
        std::signal(SIGPIPE, SIG_IGN);
        made.signals_ = Fd{::signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK)};
        made.bus_ = Fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        if (!made.signals_ || !made.bus_) return failure("cannot make a signal descriptor", Errno{errno});
        vhost::install_bus_guard(made.bus_.get());
        return made;
    }

    // Until stop().
    rt::Task<void> watch_signals(rt::Worker& control, ShareServer& server, int& ended_by) {
        while (co_await readable(control, signals_, waiting_[0])) {
            signalfd_siginfo info{};
            if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
            const int signal = static_cast<int>(info.ssi_signo);
            if (signal == SIGUSR1) {
                server.log_stats();
                continue;
            }
            if (ended_by != 0) {
                log::warn("second signal: ending at once");
                ::_exit(1);
            }
            log::info("{}: stopping", ::strsignal(signal));
            ended_by = signal;
            server.stop();
        }
    }

    rt::Task<void> watch_memory(rt::Worker& control, ShareServer& server) {
        while (co_await readable(control, bus_, waiting_[1])) {
            std::uint64_t count = 0;
            if (::read(bus_.get(), &count, sizeof count) == sizeof count) server.check_memory();
        }
    }

    void stop(rt::Worker& control) {
        stopped_ = true;
        for (rt::Operation* const operation : waiting_)
            if (operation != nullptr) control.ring().cancel(*operation);
    }

private:
    // false: stop() was called.
    rt::Task<bool> readable(rt::Worker& control, FdRef fd, rt::Operation*& waiting) {
        rt::Operation operation = control.ring().poll(fd.get(), POLLIN);
        waiting = &operation;
        co_await operation;
        waiting = nullptr;
        co_return !stopped_;
    }

    Fd signals_;
    Fd bus_;
    rt::Operation* waiting_[2] = {nullptr, nullptr};
    bool stopped_ = false;
};

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

    int ended_by = 0;
    control->gate().spawn(signals.watch_signals(*control, *server, ended_by));
    control->gate().spawn(signals.watch_memory(*control, *server));
    control->gate().spawn(serve_until_done(*control, *server, signals));
    control->run();
    const int status = ended_by == 0 ? 0 : status_on_signal;
    if (server->outliving() > 0) {
        log::warn("requests that never ended hold threads; the kernel ends them with the process");
        std::fflush(nullptr);
        ::_exit(status);
    }
    return status;
}

} // namespace viaduct::engine
