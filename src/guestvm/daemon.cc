// SPDX-License-Identifier: Apache-2.0
#include "guestvm/daemon.h"

#include "guestvm/files.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <poll.h>
#include <ranges>
#include <sys/inotify.h>
#include <sys/un.h>

namespace viaduct::guestvm {
namespace {

using Clock = std::chrono::steady_clock;

} // namespace

bool listens(const std::string& table, const std::string& path, const std::vector<std::string>& inodes) {
    // Num RefCount Protocol Flags Type St Inode Path; a listening socket has __SO_ACCEPTCON in its flags.
    bool known = false;
    bool own_listens = false;
    for (const auto row : std::views::split(table, '\n')) {
        const std::string_view line{row.begin(), row.end()};
        const bool listening = line.contains(" 00010000 ");
        if (line.ends_with(" " + path)) {
            if (listening) return true;
            known = true;
        } else if (listening) {
            own_listens |= std::ranges::any_of(
                inodes, [&](const std::string& inode) { return line.contains(" " + inode + " "); });
        }
    }
    return !known && own_listens;
}

std::vector<std::string> socket_inodes(pid_t pid) {
    constexpr std::string_view kPrefix = "socket:[";
    std::vector<std::string> inodes;
    std::error_code error;
    std::filesystem::directory_iterator fd{"/proc/" + std::to_string(pid) + "/fd", error};
    for (; !error && fd != std::filesystem::directory_iterator{}; fd.increment(error)) {
        std::error_code gone; // closed meanwhile
        const std::string name = std::filesystem::read_symlink(fd->path(), gone).string();
        if (name.starts_with(kPrefix))
            inodes.push_back(name.substr(kPrefix.size(), name.find(']') - kPrefix.size()));
    }
    return inodes;
}

Outcome<DaemonProcess> DaemonProcess::start(const std::vector<std::string>& argv, const std::string& socket,
                                            std::chrono::milliseconds limit) {
    if (socket.size() >= sizeof(sockaddr_un::sun_path))
        return failure("socket path " + socket + " is longer than " +
                       std::to_string(sizeof(sockaddr_un::sun_path) - 1) +
                       " bytes; TMPDIR can name a shorter place");
    const Fd watch{::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)};
    const std::string folder = std::filesystem::path{socket}.parent_path().string();
    if (!watch || ::inotify_add_watch(watch.get(), folder.empty() ? "." : folder.c_str(),
                                      IN_CREATE | IN_MOVED_TO | IN_ATTRIB) < 0)
        return failure("cannot watch " + folder, Errno{errno});

    TRY(auto child,
        Child::start({.argv = argv, .stdin_fd = -1, .stdout_fd = 2, .stderr_fd = 2, .kept_fds = {}}));
    const auto deadline = Clock::now() + limit;
    for (;;) {
        const bool bound = exists(socket);
        if (bound && listens(read_file("/proc/net/unix").value_or(""), socket, socket_inodes(child.pid())))
            return DaemonProcess{std::move(child)};
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
        if (left.count() <= 0)
            return failure(argv.front() + " does not listen on " + socket + " after " +
                           std::to_string(limit.count()) + " ms");
        std::array<pollfd, 2> events{pollfd{.fd = watch.get(), .events = POLLIN, .revents = 0},
                                     pollfd{.fd = child.pidfd().get(), .events = POLLIN, .revents = 0}};
        // Nothing announces listen() after bind(): that step alone is looked for every 2 ms.
        ::poll(events.data(), events.size(), bound ? 2 : static_cast<int>(left.count()));
        if (events[1].revents != 0)
            return failure(argv.front() + " ended with status " + std::to_string(child.wait()) +
                           " before it listened on " + socket);
        std::array<char, 4096> drained;
        while (::read(watch.get(), drained.data(), drained.size()) > 0) {
        }
    }
}

int DaemonProcess::end(std::chrono::milliseconds grace) {
    return child_.end(grace);
}

} // namespace viaduct::guestvm
