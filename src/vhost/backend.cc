// SPDX-License-Identifier: Apache-2.0
#include "vhost/backend.h"

#include "base/log.h"
#include "rt/worker.h"

namespace viaduct::vhost {

rt::Task<Status> Backend::serve() {
    const auto answered = co_await answer_all();
    if (!answered) log::warn("vhost-user: connection closed: {}", answered.error());
    socket_.shutdown();
    co_await protocol_.end();
    co_return answered;
}

rt::Task<Status> Backend::answer_all() {
    for (;;) {
        auto received = co_await socket_.receive();
        if (!received) co_return fail(received.error());
        if (!received->has_value()) co_return Status{};

        auto reply = co_await protocol_.handle(std::move(**received));
        if (!reply) co_return fail(reply.error());
        if (!reply->empty()) {
            const auto sent = co_await socket_.send(std::move(*reply));
            if (!sent && sent.error() == Errno{EPIPE}) co_return Status{};
            if (!sent) co_return sent;
        }
        if (device_.dead()) co_return Status{};
        // Other connections share this worker, and a front end can send without pause.
        co_await rt::Worker::current()->yield();
    }
}

} // namespace viaduct::vhost
