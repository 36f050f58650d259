// SPDX-License-Identifier: Apache-2.0
//
// A device under load: connected, in session, with as many queues running as the load needs.
#pragma once

#include "base/result.h"
#include "bench/plan.h"
#include "driver/device.h"

#include <cstdint>
#include <memory>
#include <string>
#include <sys/types.h>
#include <vector>

namespace viaduct::bench {

class Server {
public:
    // `notes` gets a sentence for each thing that was asked for and that the device does not have.
    static Outcome<std::unique_ptr<Server>> connect(const Target& target, driver::DeviceOptions options,
                                                    std::vector<std::string>& notes);

    // Stops and starts request queues until the first `count` run; at most queue_count().  Nothing may be in
    // flight.
    Outcome<void> use_queues(std::uint32_t count);
    std::uint32_t queue_count() const noexcept { return device_->request_queue_count(); }

    // CPU time that the server has used so far, see server_cpu.h.
    Outcome<std::uint64_t> cpu_ns() const;

    const std::string& name() const noexcept { return target_.name; }
    const std::vector<pid_t>& pids() const noexcept { return target_.pids; }
    driver::Device& device() noexcept { return *device_; }
    const driver::Device& device() const noexcept { return *device_; }

private:
    Server(const Target& target, std::unique_ptr<driver::Device> device)
        : target_(target), device_(std::move(device)) {}

    Target target_; // with the processes that are looked at
    std::unique_ptr<driver::Device> device_;
    std::uint32_t running_ = 0; // request queues
};

} // namespace viaduct::bench
