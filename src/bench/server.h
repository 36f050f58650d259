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

    // Has as many request queues running as the load uses, and no more.  Where the load goes by the queue map
    // the device is connected anew, as a map is of all its queues.  Nothing may be in flight.
    Outcome<void> prepare_for(const driver::LoadOptions& load);
    // What the device has of the request queues that were asked for.
    std::uint32_t queue_count() const noexcept { return queue_count_; }

    // CPU time that the server has used so far, see server_cpu.h.
    Outcome<std::uint64_t> cpu_ns() const;

    const std::string& name() const noexcept { return target_.name; }
    const std::vector<pid_t>& pids() const noexcept { return target_.pids; }
    driver::Device& device() noexcept { return *device_; }
    const driver::Device& device() const noexcept { return *device_; }

private:
    Server(const Target& target, const driver::DeviceOptions& options) : target_(target), options_(options) {}
    Outcome<void> connect(std::uint32_t queues);
    Outcome<void> use_queues(std::uint32_t count);

    Target target_; // with the processes that are looked at
    driver::DeviceOptions options_;
    std::unique_ptr<driver::Device> device_;
    std::uint32_t queue_count_ = 0;
    std::uint32_t running_ = 0; // request queues
};

} // namespace viaduct::bench
