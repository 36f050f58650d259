// SPDX-License-Identifier: Apache-2.0
//
// A daemon of ours, run by a test.
#pragma once

#include "base/result.h"
#include "guestvm/process.h"
#include "support/waiting.h"

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace viaduct::test {

#ifdef VIADUCT_BIN
// Path of a program of this build, or of the folder that the environment's VIADUCT_BIN names (the tests run
// inside a guest as well, where the build's folder is not).
inline std::string program(std::string_view name) {
    const char* const elsewhere = std::getenv("VIADUCT_BIN");
    return (elsewhere != nullptr ? std::string{elsewhere} : std::string{VIADUCT_BIN}) + "/" +
           std::string{name};
}
#endif

class Daemon {
public:
    struct Options {
        std::vector<std::string> argv;
        std::string socket; // empty: not waited for
        std::chrono::milliseconds start_limit = kPatience;
    };
    // Returns when somebody listens on the socket.  Nobody connects for that.  The failure has the daemon's
    // log.
    static Outcome<std::unique_ptr<Daemon>> start(const Options& options);
    // Ends it with SIGTERM, and SIGKILL after a minute.
    ~Daemon();
    Daemon(const Daemon&) = delete;
    Daemon& operator=(const Daemon&) = delete;

    pid_t pid() const noexcept { return child_.pid(); }
    bool running();
    void send_signal(int signal);
    // Exit status (128 + n after signal n), or nullopt when it still runs after `limit`.
    std::optional<int> wait(std::chrono::milliseconds limit);
    // SIGTERM, and SIGKILL after `grace`; the exit status.
    int end(std::chrono::milliseconds grace = kPatience);

    // What it has written to stdout and stderr so far.
    std::string log() const;
    // Until the log contains `text`.
    bool wait_for_log(std::string_view text, std::chrono::milliseconds limit) const;
    // For leaks.
    std::size_t open_fds() const;
    std::size_t threads() const;

private:
    Daemon(guestvm::Child child, Fd output) : child_(std::move(child)), output_(std::move(output)) {}
    void read_output();
    Status wait_for_socket(const std::string& socket, FdRef folder_events, std::chrono::milliseconds limit);

    guestvm::Child child_;
    Fd output_;
    mutable std::mutex mutex_; // guards log_
    mutable std::condition_variable more_;
    std::string log_;
    bool output_over_ = false;
    std::thread reader_; // ends with the last writer
};

} // namespace viaduct::test
