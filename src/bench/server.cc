// SPDX-License-Identifier: Apache-2.0
#include "bench/server.h"

#include "bench/server_cpu.h"
#include "driver/fuse_client.h"

#include <algorithm>

namespace viaduct::bench {
namespace {

void note_differences(const driver::DeviceOptions& wanted, const driver::Device& device,
                      std::vector<std::string>& notes) {
    const auto& ring = device.ring_options();
    if (device.request_queue_count() < wanted.request_queues)
        notes.push_back("the device has " + std::to_string(device.request_queue_count()) +
                        " request queues; " + std::to_string(wanted.request_queues) +
                        " were asked for, those are used");
    if (wanted.packed && !ring.packed)
        notes.push_back("the device does not offer packed virtqueues; split ones are used");
    if (wanted.event_idx && !ring.event_idx) notes.push_back("the device does not offer the event index");
    if (wanted.indirect && !ring.indirect) notes.push_back("the device does not offer indirect descriptors");
}

} // namespace

Outcome<std::unique_ptr<Server>> Server::connect(const Target& target, driver::DeviceOptions options,
                                                 std::vector<std::string>& notes) {
    options.socket = target.socket;
    options.start = false;
    std::unique_ptr<Server> server{new Server{target, options}};
    TRY_STATUS(server->connect(options.request_queues));
    server->queue_count_ = server->device_->request_queue_count();
    note_differences(options, *server->device_, notes);
    if (server->target_.pids.empty()) server->target_.pids.push_back(server->device_->peer_pid());
    return server;
}

Outcome<void> Server::connect(std::uint32_t queues) {
    device_.reset();
    running_ = 0;
    options_.request_queues = queues;
    TRY(device_, driver::Device::connect(options_));
    if (const Status started = device_->start_queue(0); !started)
        return failure(target_.name + " does not start its first queue", started.error());
    TRY_STATUS(use_queues(1));
    driver::FuseClient client{*device_, {.queue = 0}};
    if (const auto init = client.init(); !init) return failure(target_.name + " refuses INIT", init.error());
    return {};
}

Outcome<void> Server::prepare_for(const driver::LoadOptions& load) {
    const bool by_map = load.by_cpu || load.affinity;
    const std::uint32_t connected = device_->request_queue_count();
    if (by_map ? connected != load.queues : connected < load.queues) {
        if (const auto again = connect(by_map ? load.queues : queue_count_); !again)
            return failure(again.error().message +
                           " (loads by the queue map need a connection for each number of "
                           "queues; does the daemon listen again?)");
    }
    return use_queues(load.queues);
}

Outcome<void> Server::use_queues(std::uint32_t count) {
    count = std::min(count, device_->request_queue_count());
    for (; running_ < count; ++running_) {
        if (const Status started = device_->start_queue(1 + running_); !started)
            return failure(name() + " does not start request queue " + std::to_string(running_),
                           started.error());
    }
    for (; running_ > count; --running_) {
        if (const Status stopped = device_->stop_queue(running_); !stopped)
            return failure(name() + " does not stop request queue " + std::to_string(running_ - 1),
                           stopped.error());
    }
    return {};
}

Outcome<std::uint64_t> Server::cpu_ns() const {
    const auto used = cpu_ns_of(target_.pids);
    if (used) return *used;
    std::string processes;
    for (const pid_t pid : target_.pids) processes += " " + std::to_string(pid);
    return failure("cannot read the CPU time of " + name() + ", process" + processes, used.error(),
                   "--server-pid names the process that serves");
}

} // namespace viaduct::bench
