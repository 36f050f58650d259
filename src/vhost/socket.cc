// SPDX-License-Identifier: Apache-2.0
#include "vhost/socket.h"

#include "base/log.h"

#include <cstring>
#include <poll.h>
#include <sys/socket.h>

namespace viaduct::vhost {
namespace {

// Room for more descriptors than a message may have, so that what is too much can be counted; the kernel
// closes what does not fit here.
constexpr std::size_t kFdsReceivedMax = 32;

// Every descriptor of `header` gets an owner, whatever happens next.
void take_fds(msghdr& header, MessageAssembler& to) {
    for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (std::size_t index = 0; index < count; ++index) {
            int fd = -1;
            std::memcpy(&fd, CMSG_DATA(part) + index * sizeof(int), sizeof fd);
            to.add(Fd{fd});
        }
    }
    if ((header.msg_flags & MSG_CTRUNC) != 0) to.note_surplus();
}

// Waits for `events` up to the deadline.
Status wait_for(int fd, short events, Deadline deadline) {
    for (;;) {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
        if (left.count() <= 0) return fail(ETIMEDOUT);
        pollfd waiting{.fd = fd, .events = events, .revents = 0};
        const int ready = ::poll(&waiting, 1, static_cast<int>(std::min<long long>(left.count(), 60'000)));
        if (ready < 0 && errno != EINTR) return fail(errno);
        if (ready > 0) return {};
    }
}

} // namespace

Result<MessageSocket::Step> MessageSocket::read_some() {
    while (!assembler_.complete()) {
        const auto room = assembler_.room();
        iovec data{.iov_base = room.data(), .iov_len = room.size()};
        alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kFdsReceivedMax)];
        msghdr header{};
        header.msg_iov = &data;
        header.msg_iovlen = 1;
        header.msg_control = control;
        header.msg_controllen = sizeof control;

        const ssize_t received = ::recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (received < 0) {
            const int error = errno;
            if (error == EINTR) continue;
            if (error == EAGAIN) return Step::blocked;
            if (error == ECONNRESET) return Step::closed;
            return fail(error);
        }
        take_fds(header, assembler_);
        if (received == 0) {
            if (!assembler_.empty()) log::warn("vhost-user: the peer left in the middle of a message");
            return Step::closed;
        }
        TRY_STATUS(assembler_.advance(static_cast<std::size_t>(received)));
    }
    return Step::message;
}

Result<std::size_t> MessageSocket::write_some(std::span<const std::byte> bytes, std::span<const int> fds) {
    iovec data{.iov_base = const_cast<std::byte*>(bytes.data()), .iov_len = bytes.size()};
    std::vector<char> control;
    msghdr header{};
    header.msg_iov = &data;
    header.msg_iovlen = 1;
    if (!fds.empty()) {
        control.resize(CMSG_SPACE(fds.size_bytes()));
        header.msg_control = control.data();
        header.msg_controllen = control.size();
        cmsghdr* const rights = CMSG_FIRSTHDR(&header);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(fds.size_bytes());
        std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
    }
    for (;;) {
        const ssize_t sent = ::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent >= 0) return static_cast<std::size_t>(sent);
        const int error = errno;
        if (error == EINTR) continue;
        if (error == EAGAIN) return 0;
        return fail(error == ECONNRESET ? EPIPE : error);
    }
}

Result<std::optional<Message>> MessageSocket::receive_until(Deadline deadline) {
    for (;;) {
        TRY(const Step step, read_some());
        if (step == Step::closed) return std::nullopt;
        if (step == Step::message) return assembler_.take();
        TRY_STATUS(wait_for(socket_.get(), POLLIN, deadline));
    }
}

Status MessageSocket::send_until(std::span<const std::byte> bytes, std::span<const int> fds,
                                 Deadline deadline) {
    while (!bytes.empty()) {
        TRY(const std::size_t part, write_some(bytes, fds));
        if (part > 0) {
            bytes = bytes.subspan(part);
            fds = {}; // they went with the first byte
            continue;
        }
        TRY_STATUS(wait_for(socket_.get(), POLLOUT, deadline));
    }
    return {};
}

void MessageSocket::shutdown() noexcept {
    ::shutdown(socket_.get(), SHUT_RDWR);
}

} // namespace viaduct::vhost
