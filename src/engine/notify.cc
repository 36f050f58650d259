// SPDX-License-Identifier: Apache-2.0
#include "engine/notify.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

namespace viaduct::engine {

void notify_manager(std::string_view line) noexcept {
    const char* const path = std::getenv("NOTIFY_SOCKET");
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    const std::size_t length = path == nullptr ? 0 : std::strlen(path);
    if (length == 0 || length >= sizeof address.sun_path) return;
    std::memcpy(address.sun_path, path, length);
    if (address.sun_path[0] == '@') address.sun_path[0] = '\0'; // an abstract name
    const Fd socket{::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)};
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length);
    // A manager that does not listen is not worth an error.
    [[maybe_unused]] const auto sent =
        ::sendto(socket.get(), line.data(), line.size(), MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&address), bytes); // the API's own cast
}

Outcome<std::optional<int>> Background::enter(Background& made) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return failure("pipe", Errno{errno});
    Fd reading{fds[0]};
    Fd writing{fds[1]};
    const pid_t pid = ::fork();
    if (pid < 0) return failure("cannot go to the background: fork", Errno{errno});
    if (pid == 0) {
        ::setsid();
        made.parent_ = std::move(writing);
        return std::nullopt;
    }
    writing.reset();
    char byte = 0;
    ssize_t got = -1;
    do {
        got = ::read(reading.get(), &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got == 1) return 0;
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? std::max(WEXITSTATUS(status), 1) : 1; // it has said why
}

void Background::ready() noexcept {
    if (!parent_) return;
    [[maybe_unused]] const auto moved = ::chdir("/"); // holds no mount busy
    const Fd nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
    for (int fd = 0; nothing && fd <= 2; ++fd) ::dup2(nothing.get(), fd);
    [[maybe_unused]] const auto told = ::write(parent_.get(), "1", 1);
    parent_.reset();
}

} // namespace viaduct::engine
