// SPDX-License-Identifier: Apache-2.0
//
// The workers of a daemon, and which of them serves a queue.
#pragma once

#include "config/serve_options.h"
#include "rt/worker.h"

#include <memory>
#include <vector>

namespace viaduct::engine {

class Workers {
public:
    static Outcome<std::unique_ptr<Workers>> start(const config::ServeOptions& options);

    ~Workers();
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    // Request queues go round the workers in order, hiprio to the first.
    rt::Worker& for_queue(std::uint16_t index) noexcept {
        return *workers_[index == 0 ? 0 : (index - 1U) % workers_.size()];
    }
    const std::vector<std::unique_ptr<rt::Worker>>& all() const noexcept { return workers_; }

private:
    Workers() = default;
    std::vector<std::unique_ptr<rt::Worker>> workers_;
};

// What `--ring` asks for.
std::optional<rt::Ring::Kind> ring_kind(const std::string& option);

} // namespace viaduct::engine
