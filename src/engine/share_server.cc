// SPDX-License-Identifier: Apache-2.0
#include "engine/share_server.h"

#include "base/log.h"
#include "engine/share.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

// The socket is for this user only, or for a group too.
Outcome<vhost::Listener> bind_socket(const config::ServeOptions& options) {
    const mode_t old_mask = ::umask(0077);
    auto listener = vhost::Listener::bind(options.socket_path);
    ::umask(old_mask);
    if (!listener || options.socket_group.empty()) return listener;
    const group* const entry = ::getgrnam(options.socket_group.c_str());
    if (entry == nullptr)
        return usage_failure("--socket-group is \"" + options.socket_group + "\"; there is no such group");
    if (::chown(options.socket_path.c_str(), static_cast<uid_t>(-1), entry->gr_gid) != 0 ||
        ::chmod(options.socket_path.c_str(), 0770) != 0)
        return failure("cannot give " + options.socket_path + " to group " + options.socket_group,
                       Errno{errno});
    return listener;
}

} // namespace

Outcome<std::unique_ptr<ShareServer>> ShareServer::make(const config::ServeOptions& options,
                                                        Workers& workers) {
    TRY_STATUS(open_share(options, {})); // each front end gets one of its own; what is wrong is said now
    std::unique_ptr<ShareServer> server{new ShareServer{options, workers}};
    TRY(auto listener,
        options.socket_fd >= 0 ? vhost::Listener::adopt(Fd{options.socket_fd}) : bind_socket(options));
    server->listener_.emplace(std::move(listener));
    log::info("sharing {} on {}, up to {} request queues, {} workers", options.share,
              options.socket_fd >= 0 ? "fd " + std::to_string(options.socket_fd) : options.socket_path,
              options.queues, workers.all().size());
    return server;
}

ShareServer::~ShareServer() = default;

rt::Task<void> ShareServer::serve() {
    while (!stopping_) {
        auto socket = co_await listener_->accept();
        if (!socket) {
            if (!stopping_) log::error("cannot accept a front end: {}", socket.error());
            co_return;
        }
        auto made = Connection::make(options_, workers_, locking_, std::move(*socket));
        if (!made) {
            log::error("cannot serve the front end: {}", made.error().message);
            if (!options_.keep_listening) co_return;
            continue;
        }
        log::info("front end connected");
        connection_ = std::move(*made);
        const Status ended = co_await connection_->serve();
        if (ended)
            log::info("front end left");
        else
            log::error("connection ended: {}", ended.error());
        connection_->log_stats();
        write_stats(*connection_);
        if (connection_->outlives())
            outliving_.spawn(keep_until_quiet(std::move(connection_)));
        else
            connection_.reset();
        if (!options_.keep_listening) co_return;
    }
}

rt::Task<void> ShareServer::keep_until_quiet(std::unique_ptr<Connection> connection) {
    co_await connection->outlived();
    log::info("the last requests of a dead device have ended");
}

void ShareServer::stop() {
    stopping_ = true;
    listener_->stop();
    if (connection_) connection_->stop();
}

void ShareServer::check_memory() {
    if (connection_) connection_->check_memory();
}

void ShareServer::log_stats() const {
    if (connection_) connection_->log_stats();
}

void ShareServer::write_stats(const Connection& connection) const {
    if (options_.stats_file.empty()) return;
    // Whole or not at all: a reader may be waiting for it.
    const std::string text = connection.stats_json() + "\n";
    const std::string fresh = options_.stats_file + ".new";
    const Fd file{::open(fresh.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)};
    if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()) ||
        ::rename(fresh.c_str(), options_.stats_file.c_str()) != 0)
        log::error("cannot write --stats-file {}: {}", options_.stats_file, Errno{errno});
}

} // namespace viaduct::engine
