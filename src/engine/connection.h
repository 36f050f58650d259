// SPDX-License-Identifier: Apache-2.0
//
// Connection: everything that lives as long as one front end is connected.
//
// Back end, session and device are made anew for each connection.  What outlives it is only what a request
// that never ends still holds: such a connection is kept aside until it is quiet.
#pragma once

#include "base/fd.h"
#include "config/serve_options.h"
#include "engine/share.h"
#include "engine/workers.h"
#include "session/session.h"
#include "transport/virtio_fs/device.h"
#include "vhost/backend.h"

#include <memory>
#include <string>

namespace viaduct::engine {

// Control thread.
class Connection {
public:
    static Outcome<std::unique_ptr<Connection>> make(const config::ServeOptions& options, Workers& workers,
                                                     const Locking& locking, Fd socket);

    // Until the front end leaves, stop() is called, or the device is dead.
    rt::Task<Status> serve();
    // Ends serve() soon.
    void stop() noexcept;
    // SIGBUS was seen somewhere: ends serve() if it hit this device's memory.
    void check_memory();
    // Waits for requests that outlived the device.
    rt::Task<void> outlived();
    bool outlives() const noexcept { return device_->dead(); }

    // {"queues":[{"index":0,"name":"hiprio","requests":3,...},...]}
    std::string stats_json() const;
    void log_stats() const;

private:
    // Passes requests to the session and ends it when the device is reset.
    class Sink final : public transport::DeviceSink {
    public:
        explicit Sink(session::Session& session) noexcept : session_(session) {}
        void handle(fuse::RawRequest& request) override { session_.handle(request); }
        void cancel(const fuse::RequestChoice& chosen) override { session_.cancel(chosen); }
        rt::Task<void> end_client() override;
        void end_endless_waits() override { session_.end_lock_waits(); }

    private:
        session::Session& session_;
    };

    Connection() = default;

    std::unique_ptr<fs::FileSystem> file_system_;
    std::unique_ptr<session::Session> session_;
    std::unique_ptr<Sink> sink_;
    std::unique_ptr<transport::Device> device_;
    std::unique_ptr<vhost::Backend> backend_;
};

} // namespace viaduct::engine
