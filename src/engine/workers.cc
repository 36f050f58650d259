// SPDX-License-Identifier: Apache-2.0
#include "engine/workers.h"

#include <algorithm>
#include <sched.h>

namespace viaduct::engine {
namespace {

constexpr std::size_t kDefaultWorkersMax = 4;

std::size_t usable_cpus() {
    cpu_set_t mask;
    if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return 1;
    return static_cast<std::size_t>(std::max(CPU_COUNT(&mask), 1));
}

} // namespace

std::optional<rt::Ring::Kind> ring_kind(const std::string& option) {
    if (option == "io_uring") return rt::Ring::Kind::uring;
    if (option == "poll") return rt::Ring::Kind::poll;
    return std::nullopt;
}

Workers::~Workers() {
    for (const auto& worker : workers_) worker->stop();
    for (const auto& worker : workers_) worker->join();
}

Outcome<std::unique_ptr<Workers>> Workers::start(const config::ServeOptions& options) {
    std::unique_ptr<Workers> made{new Workers};
    const std::size_t wanted =
        options.workers > 0 ? options.workers : std::min(usable_cpus(), kDefaultWorkersMax);
    // More workers than queues would have nothing to do.
    const std::size_t count = std::min<std::size_t>(wanted, options.queues);
    for (std::size_t index = 0; index < count; ++index) {
        TRY(auto worker, rt::Worker::start({.name = "worker-" + std::to_string(index),
                                            .ring = ring_kind(options.ring),
                                            .poll_us = static_cast<std::uint32_t>(options.poll_us)}));
        made->workers_.push_back(std::move(worker));
    }
    return made;
}

} // namespace viaduct::engine
