// SPDX-License-Identifier: Apache-2.0
#include "vhost/listener.h"

#include "base/assert.h"
#include "base/log.h"
#include "rt/worker.h"
#include "vhost/text.h"

#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <utility>

namespace viaduct::vhost {
namespace {

constexpr std::uint64_t kPauseNanoseconds = 100'000'000;

Outcome<sockaddr_un> address_of(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty()) return usage_failure("socket path: empty; give the path of the socket to make");
    if (path.size() >= sizeof address.sun_path)
        return usage_failure(
            sentence("socket path {}: {} bytes long; at most {} are possible for a Unix socket", path,
                     path.size(), sizeof address.sun_path - 1));
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
}

Fd new_socket(int type) {
    return Fd{::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
}

bool bind_to(FdRef socket, const sockaddr_un& address) {
    return ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
}

// Does a process hold the socket of this file?  A datagram socket asks without making a connection that the
// daemon there would see: it is refused because of its type, or because nobody is there.
Errno probe(const sockaddr_un& address) {
    const Fd asking = new_socket(SOCK_DGRAM);
    if (!asking) return Errno{errno};
    if (::connect(asking.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0)
        return Errno{EPROTOTYPE};
    return Errno{errno};
}

const char* hint_for(Errno error) {
    switch (error.value()) {
    case ENOENT:
        return "make its directory first";
    case ENOTDIR:
        return "a part of the path is not a directory";
    case EACCES:
    case EPERM:
        return "this user may not create files there; choose a directory that belongs to it";
    case EROFS:
        return "choose a path on a file system that can be written";
    default:
        return "";
    }
}

// Together one second.
constexpr int kDyingTriesMax = 50;
constexpr int kDyingPauseMs = 20;

// Makes room for the file when what is there is a socket that nobody holds.
Outcome<void> remove_stale(const std::string& path, const sockaddr_un& address) {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return failure("socket path " + path, Errno{errno});
    if (!S_ISSOCK(info.st_mode))
        return failure("socket path " + path +
                       ": exists and is not a socket; remove it or choose another path");
    Errno answer = probe(address);
    // A process that was killed a moment ago holds its socket until the kernel has torn down its io_uring, of
    // which nothing tells; a daemon that is started again at once must not be refused for it.
    for (int tries = 0; tries < kDyingTriesMax && answer == Errno{EPROTOTYPE}; ++tries) {
        ::poll(nullptr, 0, kDyingPauseMs);
        answer = probe(address);
    }
    if (answer == Errno{EPROTOTYPE})
        return failure("socket path " + path +
                       ": in use by a running process; stop it or choose another path");
    if (answer != Errno{ECONNREFUSED}) return failure("socket path " + path, answer, hint_for(answer));
    if (::unlink(path.c_str()) != 0) {
        const Errno error{errno};
        return failure("socket path " + path + ": the stale socket there cannot be removed", error,
                       hint_for(error));
    }
    log::info("socket path {}: replaced a stale socket", path);
    return {};
}

// The connection is over before it began: who only looked whether someone is here.
bool is_gone(FdRef socket) {
    char byte = 0;
    return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

bool passes_by_itself(int error) {
    return error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM;
}

} // namespace

Outcome<Listener> Listener::bind(const std::string& path) {
    TRY(const sockaddr_un address, address_of(path));
    Fd socket = new_socket(SOCK_STREAM);
    if (!socket) return failure("socket path " + path, Errno{errno});
    if (!bind_to(socket, address)) {
        const Errno error{errno};
        if (error != Errno{EADDRINUSE}) return failure("socket path " + path, error, hint_for(error));
        TRY_STATUS(remove_stale(path, address));
        if (!bind_to(socket, address)) return failure("socket path " + path, Errno{errno});
    }
    Listener listener{std::move(socket)};
    struct stat info{};
    if (::lstat(path.c_str(), &info) == 0) {
        listener.path_ = path;
        listener.device_ = info.st_dev;
        listener.inode_ = info.st_ino;
    }
    if (::listen(listener.socket_.get(), SOMAXCONN) != 0) return failure("socket path " + path, Errno{errno});
    return listener;
}

Outcome<Listener> Listener::adopt(Fd socket) {
    const std::string what = sentence("socket descriptor {}", socket.get());
    int listening = 0;
    socklen_t bytes = sizeof listening;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_ACCEPTCONN, &listening, &bytes) != 0)
        return failure(what, Errno{errno}, "give the number of a listening Unix socket");
    int domain = 0;
    bytes = sizeof domain;
    if (::getsockopt(socket.get(), SOL_SOCKET, SO_DOMAIN, &domain, &bytes) != 0)
        return failure(what, Errno{errno});
    if (listening == 0 || domain != AF_UNIX) return failure(what + ": not a listening Unix socket");
    const int flags = ::fcntl(socket.get(), F_GETFL);
    if (flags < 0 || ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0)
        return failure(what, Errno{errno});
    if (::fcntl(socket.get(), F_SETFD, FD_CLOEXEC) != 0) return failure(what, Errno{errno});
    return Listener{std::move(socket)};
}

Listener::Listener(Listener&& other) noexcept
    : socket_(std::move(other.socket_)), path_(std::exchange(other.path_, {})), device_(other.device_),
      inode_(other.inode_), stopped_(other.stopped_) {
    ASSERT(other.waiting_ == nullptr);
}

Listener::~Listener() {
    ASSERT(waiting_ == nullptr);
    if (path_.empty()) return;
    struct stat info{};
    if (::lstat(path_.c_str(), &info) != 0) return;
    if (info.st_dev == device_ && info.st_ino == inode_) ::unlink(path_.c_str());
}

rt::Task<Result<Fd>> Listener::accept() {
    rt::Ring& ring = rt::Worker::current()->ring();
    while (!stopped_) {
        Fd connection{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
        const int error = connection ? 0 : errno;
        if (connection) {
            if (!is_gone(connection)) co_return connection;
            continue;
        }
        if (passes_by_itself(error)) continue;
        // Out of descriptors or memory: the connection stays in the queue, so asking again at once is no use.
        const bool exhausted = error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
        if (exhausted) log::warn("a front end waits to connect: {}", Errno{error});
        if (!exhausted && error != EAGAIN) co_return fail(error);
        auto waiting = exhausted ? ring.sleep(kPauseNanoseconds) : ring.poll(socket_.get(), POLLIN);
        waiting_ = &waiting;
        const int result = co_await waiting;
        waiting_ = nullptr;
        if (result == -ECANCELED) break;
        if (result < 0 && result != -ETIME) co_return fail(-result);
    }
    co_return fail(ECANCELED);
}

void Listener::stop() {
    stopped_ = true;
    if (waiting_ != nullptr) rt::Worker::current()->ring().cancel(*waiting_);
}

} // namespace viaduct::vhost
