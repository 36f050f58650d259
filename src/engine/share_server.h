// SPDX-License-Identifier: Apache-2.0
//
// ShareServer: one share on one socket, one connection after the other.
#pragma once

#include "engine/connection.h"
#include "vhost/listener.h"

#include <memory>
#include <optional>

namespace viaduct::engine {

// Control thread.
class ShareServer {
public:
    // Checks the share and binds the socket.
    static Outcome<std::unique_ptr<ShareServer>> make(const config::ServeOptions& options, Workers& workers);
    ~ShareServer();

    // Accepts and serves until stop(), or until the first connection ends where that is asked for.
    rt::Task<void> serve();
    void stop();
    void check_memory();
    void log_stats() const;
    // Connections whose requests have not ended yet; they hold workers' objects.
    std::size_t outliving() const noexcept { return outliving_.count(); }

private:
    ShareServer(const config::ServeOptions& options, Workers& workers)
        : options_(options), workers_(workers) {}
    rt::Task<void> keep_until_quiet(std::unique_ptr<Connection> connection);
    void write_stats(const Connection& connection) const;

    const config::ServeOptions& options_;
    Workers& workers_;
    const Locking locking_;
    std::optional<vhost::Listener> listener_;
    std::unique_ptr<Connection> connection_;
    rt::Gate outliving_;
    bool stopping_ = false;
};

} // namespace viaduct::engine
