// SPDX-License-Identifier: Apache-2.0
//
// A folder, served by a daemon of ours for one test.
#pragma once

#include "support/daemon.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

namespace viaduct::test {

class ServedShare {
public:
    // `viaduct serve` of an empty folder, with these options besides.
    explicit ServedShare(const std::vector<std::string>& options = {}) {
        std::vector<std::string> argv{program("viaduct"), "serve", "--share",   share_, "--socket", socket_,
                                      "--queues",         "4",     "--workers", "2"};
        argv.insert(argv.end(), options.begin(), options.end());
        auto started = Daemon::start({.argv = std::move(argv), .socket = socket_});
        if (started)
            daemon_ = *std::move(started);
        else
            ADD_FAILURE() << started.error().message;
    }
    ~ServedShare() {
        if (testing::Test::HasFailure() && daemon_) std::printf("%s", daemon_->log().c_str());
    }
    ServedShare(const ServedShare&) = delete;
    ServedShare& operator=(const ServedShare&) = delete;

    bool runs() const { return daemon_ != nullptr && daemon_->running(); }
    Daemon& daemon() { return *daemon_; }
    const std::string& socket() const noexcept { return socket_; }
    const std::string& share() const noexcept { return share_; }

private:
    const TempDir folder_;
    const std::string share_ = folder_.make_folder("share");
    const std::string socket_ = folder_.file("socket");
    std::unique_ptr<Daemon> daemon_;
};

} // namespace viaduct::test
