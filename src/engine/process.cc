// SPDX-License-Identifier: Apache-2.0
#include "engine/process.h"

#include "base/log.h"
#include "vhost/memory_table.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

// Below this a share cannot be used for much: each node the client knows holds a descriptor.
constexpr std::uint64_t kFilesWanted = 8192;
// Below this not even rings, queues and a few files fit.
constexpr std::uint64_t kFilesMin = 512;

} // namespace

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

Outcome<Signals> Signals::make() {
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

void Signals::watch(rt::Worker& control, const Handlers& handlers) {
    control.gate().spawn(watch_signals(control, handlers));
    if (handlers.memory_lost) control.gate().spawn(watch_memory(control, handlers));
}

void Signals::stop(rt::Worker& control) {
    stopped_ = true;
    for (rt::Operation* const operation : waiting_)
        if (operation != nullptr) control.ring().cancel(*operation);
}

rt::Task<void> Signals::watch_signals(rt::Worker& control, const Handlers& handlers) {
    while (co_await readable(control, signals_, waiting_[0])) {
        signalfd_siginfo info{};
        if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
        const int signal = static_cast<int>(info.ssi_signo);
        if (signal == SIGUSR1) {
            handlers.log_stats();
            continue;
        }
        if (ended_by_ != 0) {
            log::warn("second signal: ending at once");
            handlers.stop_at_once();
        }
        log::info("{}: stopping", ::strsignal(signal));
        ended_by_ = signal;
        handlers.stop();
    }
}

rt::Task<void> Signals::watch_memory(rt::Worker& control, const Handlers& handlers) {
    while (co_await readable(control, bus_, waiting_[1])) {
        std::uint64_t count = 0;
        if (::read(bus_.get(), &count, sizeof count) == sizeof count) handlers.memory_lost();
    }
}

rt::Task<bool> Signals::readable(rt::Worker& control, FdRef fd, rt::Operation*& waiting) {
    rt::Operation operation = control.ring().poll(fd.get(), POLLIN);
    waiting = &operation;
    co_await operation;
    waiting = nullptr;
    co_return !stopped_;
}

} // namespace viaduct::engine
