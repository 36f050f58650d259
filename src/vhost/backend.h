// SPDX-License-Identifier: Apache-2.0
//
// The device end of one vhost-user connection.
//
// Control worker.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/task.h"
#include "vhost/device_operations.h"
#include "vhost/device_protocol.h"
#include "vhost/socket.h"

namespace viaduct::vhost {

class Backend {
public:
    // `device` outlives this object.
    Backend(Fd socket, DeviceOperations& device)
        : socket_(std::move(socket)), device_(device), protocol_(device) {}

    // Answers the front end until it leaves or the device is dead, then resets the device.
    // EPROTO: it broke the protocol and was let go.  Otherwise an error of the socket.
    rt::Task<Status> serve();

    // Ends serve() as if the front end had left; what it is just doing for a request is done first.
    void stop() noexcept { socket_.shutdown(); }

    const DeviceProtocol& protocol() const noexcept { return protocol_; }

private:
    rt::Task<Status> answer_all();

    MessageSocket socket_;
    DeviceOperations& device_;
    DeviceProtocol protocol_;
};

} // namespace viaduct::vhost
