// SPDX-License-Identifier: Apache-2.0
//
// Messages on a worker; apart from socket.cc, so that a program without workers is linked without them.
#include "rt/worker.h"
#include "vhost/socket.h"

#include <poll.h>

namespace viaduct::vhost {

rt::Task<Result<std::optional<Message>>> MessageSocket::receive() {
    for (;;) {
        const auto step = read_some();
        if (!step) co_return fail(step.error());
        if (*step == Step::closed) co_return std::nullopt;
        if (*step == Step::message) co_return assembler_.take();
        const int ready = co_await rt::Worker::current()->ring().poll(socket_.get(), POLLIN);
        if (ready < 0) co_return fail(-ready);
    }
}

rt::Task<Status> MessageSocket::send(std::vector<std::byte> bytes) {
    std::size_t sent = 0;
    while (sent < bytes.size()) {
        const auto part = write_some(std::span{bytes}.subspan(sent), {});
        if (!part) co_return fail(part.error());
        sent += *part;
        if (*part > 0) continue;
        const int ready = co_await rt::Worker::current()->ring().poll(socket_.get(), POLLOUT);
        if (ready < 0) co_return fail(-ready);
    }
    co_return Status{};
}

} // namespace viaduct::vhost
