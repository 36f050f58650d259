// SPDX-License-Identifier: Apache-2.0
#include "engine/connection.h"

#include "base/log.h"

namespace viaduct::engine {
namespace {

session::SessionOptions device_options(const config::ServeOptions& options) {
    session::SessionOptions made = session_options(options);
    made.wishes.submounts = options.announce_submounts;
    return made;
}

std::string queue_name(std::uint16_t index) {
    return index == 0 ? "hiprio" : "requests." + std::to_string(index - 1);
}

} // namespace

rt::Task<void> Connection::Sink::end_client() {
    return session_.end();
}

Outcome<std::unique_ptr<Connection>> Connection::make(const config::ServeOptions& options, Workers& workers,
                                                      const Locking& locking, Fd socket) {
    std::unique_ptr<Connection> made{new Connection};
    TRY(made->file_system_, open_share(options, locking));
    made->session_ = std::make_unique<session::Session>(*made->file_system_, device_options(options));
    for (const auto& worker : workers.all()) made->session_->attach_worker(*worker);
    made->sink_ = std::make_unique<Sink>(*made->session_);
    made->device_ = std::make_unique<transport::Device>(
        transport::DeviceOptions{.tag = options.tag,
                                 .request_queues_max = static_cast<std::uint16_t>(options.queues),
                                 .packed = options.packed,
                                 .drain_timeout = std::chrono::milliseconds{options.drain_timeout_ms}},
        [&workers](std::uint16_t index) -> rt::Worker& { return workers.for_queue(index); }, *made->sink_);
    made->backend_ = std::make_unique<vhost::Backend>(std::move(socket), *made->device_);
    return made;
}

rt::Task<Status> Connection::serve() {
    return backend_->serve();
}

void Connection::stop() noexcept {
    backend_->stop();
}

void Connection::check_memory() {
    if (!device_->memory_lost()) return;
    log::error("the front end shrank memory that this device uses; the device is let go");
    backend_->stop();
}

rt::Task<void> Connection::outlived() {
    co_await device_->outlived();
    co_await session_->end();
}

std::string Connection::stats_json() const {
    std::string text = "{\"queues\":[";
    for (const auto& queue : device_->queues()) {
        if (text.back() != '[') text += ',';
        text += "{\"index\":" + std::to_string(queue.index) + ",\"name\":\"" + queue_name(queue.index) +
                "\",\"requests\":" + std::to_string(queue.stats->requests.get()) +
                ",\"kicks\":" + std::to_string(queue.stats->kicks.get()) +
                ",\"signals\":" + std::to_string(queue.stats->signals.get()) + "}";
    }
    return text + "]}";
}

void Connection::log_stats() const {
    for (const auto& queue : device_->queues())
        log::info("queue {}: {} requests, {} kicks, {} signals", queue_name(queue.index),
                  queue.stats->requests.get(), queue.stats->kicks.get(), queue.stats->signals.get());
}

} // namespace viaduct::engine
