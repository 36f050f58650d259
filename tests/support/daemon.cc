// SPDX-License-Identifier: Apache-2.0
#include "support/daemon.h"

#include "guestvm/daemon.h"
#include "guestvm/files.h"
#include "support/mounts.h"

#include <array>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <poll.h>
#include <sys/inotify.h>

namespace viaduct::test {
namespace {

std::size_t entries_of(const std::string& folder) {
    std::error_code ignored;
    std::size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator{folder, ignored}) ++count;
    return count;
}

} // namespace

Outcome<std::unique_ptr<Daemon>> Daemon::start(const Options& options) {
    use_private_mounts();
    std::array<int, 2> pipe_fds{};
    if (::pipe2(pipe_fds.data(), O_CLOEXEC) < 0) return failure("pipe", Errno{errno});
    Fd output{pipe_fds[0]};
    Fd input{pipe_fds[1]};
    // Watched from before the start, so that no event is missed.
    const Fd events{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    if (!options.socket.empty()) {
        const std::string folder = std::filesystem::path{options.socket}.parent_path().string();
        if (::inotify_add_watch(events.get(), folder.c_str(), IN_CREATE | IN_MOVED_TO | IN_ATTRIB) < 0)
            return failure("cannot watch " + folder, Errno{errno});
    }
    TRY(auto child, guestvm::Child::start({.argv = options.argv,
                                           .stdin_fd = -1,
                                           .stdout_fd = input.get(),
                                           .stderr_fd = input.get(),
                                           .kept_fds = {}}));
    input.reset();
    std::unique_ptr<Daemon> daemon{new Daemon{std::move(child), std::move(output)}};
    daemon->reader_ = std::thread{[&self = *daemon] { self.read_output(); }};
    if (options.socket.empty()) return daemon;
    if (const Status listens = daemon->wait_for_socket(options.socket, events, options.start_limit);
        !listens) {
        daemon->end();
        return failure(options.argv.front() + " does not listen on " + options.socket, listens.error(),
                       "\n" + daemon->log());
    }
    return daemon;
}

Status Daemon::wait_for_socket(const std::string& socket, FdRef folder_events,
                               std::chrono::milliseconds limit) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    for (;;) {
        const bool bound = guestvm::exists(socket);
        if (bound && guestvm::listens(guestvm::read_file("/proc/net/unix").value_or(""), socket,
                                      guestvm::socket_inodes(pid())))
            return {};
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return fail(ETIMEDOUT);
        std::array<pollfd, 2> fds{pollfd{.fd = folder_events.get(), .events = POLLIN, .revents = 0},
                                  pollfd{.fd = child_.pidfd().get(), .events = POLLIN, .revents = 0}};
        // Nothing announces listen() after bind(): that step alone is looked for every 2 ms.
        ::poll(fds.data(), fds.size(), bound ? 2 : static_cast<int>(left.count()));
        if (fds[1].revents != 0) return fail(ECHILD);
        std::array<char, 4096> drained;
        while (::read(folder_events.get(), drained.data(), drained.size()) > 0) {
        }
    }
}

Daemon::~Daemon() {
    end();
}

void Daemon::read_output() {
    std::array<char, 4096> buffer;
    for (;;) {
        const ssize_t got = ::read(output_.get(), buffer.data(), buffer.size());
        if (got < 0 && errno == EINTR) continue;
        const std::lock_guard lock{mutex_};
        if (got > 0) log_.append(buffer.data(), static_cast<std::size_t>(got));
        if (got <= 0) output_over_ = true;
        more_.notify_all();
        if (got <= 0) return;
    }
}

bool Daemon::running() {
    return !child_.wait(std::chrono::milliseconds{0});
}

void Daemon::send_signal(int signal) {
    if (running()) ::kill(pid(), signal);
}

std::optional<int> Daemon::wait(std::chrono::milliseconds limit) {
    return child_.wait(limit);
}

int Daemon::end(std::chrono::milliseconds grace) {
    const int status = child_.end(grace);
    if (reader_.joinable()) reader_.join();
    return status;
}

std::string Daemon::log() const {
    const std::lock_guard lock{mutex_};
    return log_;
}

bool Daemon::wait_for_log(std::string_view text, std::chrono::milliseconds limit) const {
    std::unique_lock lock{mutex_};
    const auto found = [&] { return log_.find(text) != std::string::npos; };
    more_.wait_for(lock, limit, [&] { return found() || output_over_; });
    return found();
}

std::size_t Daemon::open_fds() const {
    return entries_of("/proc/" + std::to_string(pid()) + "/fd");
}

std::size_t Daemon::threads() const {
    return entries_of("/proc/" + std::to_string(pid()) + "/task");
}

} // namespace viaduct::test
