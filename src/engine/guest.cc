// SPDX-License-Identifier: Apache-2.0
#include "engine/guest.h"

#include "guestvm/daemon.h"
#include "guestvm/guest.h"
#include "guestvm/temp_dir.h"

#include <optional>

namespace viaduct::engine {
namespace {

guestvm::GuestOptions machine_of(const config::GuestCommand& command) {
    guestvm::GuestOptions options;
    options.command = command.command;
    options.environment = command.environment;
    options.tag = command.tag;
    options.queues = static_cast<unsigned>(command.queues > 0 ? command.queues : command.cpus);
    options.cpus = static_cast<unsigned>(command.cpus);
    options.memory_mb = static_cast<unsigned>(command.memory_mb);
    options.kernel = command.kernel;
    options.qemu = command.qemu;
    options.root_disk = command.root_disk;
    options.accel = command.accel == "kvm"   ? guestvm::Accel::kvm
                    : command.accel == "tcg" ? guestvm::Accel::tcg
                                             : guestvm::Accel::automatic;
    options.packed = command.packed;
    options.console = command.console;
    options.allow_reboot = command.allow_reboot;
    options.pass_stdin = command.pass_stdin;
    options.timeout = std::chrono::seconds{command.timeout_s};
    return options;
}

} // namespace

namespace {

Outcome<int> run(const config::GuestCommand& command) {
    guestvm::GuestOptions options = machine_of(command);
    TRY_STATUS(guestvm::check(options));
    if (!command.socket.empty()) return guestvm::run_guest(options, command.socket);

    TRY(const auto folder, guestvm::TempDir::create());
    const std::string socket = folder.path() + "/vhost.sock";
    std::vector<std::string> words = {"/proc/self/exe", "serve", "--share",  command.share,
                                      "--socket",       socket,  "--queues", std::to_string(options.queues)};
    if (!command.stats_file.empty()) words.insert(words.end(), {"--stats-file", command.stats_file});
    words.insert(words.end(), command.serve_options.begin(), command.serve_options.end());
    TRY(auto daemon, guestvm::DaemonProcess::start(words, socket));
    options.daemon_pidfd = daemon.pidfd();
    auto status = guestvm::run_guest(options, socket);
    daemon.end(std::chrono::milliseconds{0});
    return status;
}

} // namespace

Outcome<int> run_guest(const config::GuestCommand& command) {
    auto status = run(command);
    // Not to be mistaken for the command's own.
    if (!status && status.error().exit_status == 1) status.error().exit_status = guestvm::kStatusOurs;
    return status;
}

} // namespace viaduct::engine
