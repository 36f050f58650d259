// SPDX-License-Identifier: Apache-2.0
#include "guestvm/guest.h"

#include "guestvm/files.h"
#include "guestvm/initramfs.h"
#include "guestvm/kernel.h"
#include "guestvm/machine.h"
#include "guestvm/process.h"
#include "guestvm/qemu.h"
#include "guestvm/temp_dir.h"
#include "guestvm/trailer.h"

#include <fcntl.h>

namespace viaduct::guestvm {
namespace {

using Clock = std::chrono::steady_clock;

// Failures on the way to the machine are ours, not the command's.
std::unexpected<Failure> ours(Failure failure) {
    failure.exit_status = kStatusOurs;
    return std::unexpected{std::move(failure)};
}

Outcome<void> in_range(const char* option, unsigned value, unsigned min, unsigned max) {
    if (value >= min && value <= max) return {};
    return usage_failure(std::string{option} + " is " + std::to_string(value) + "; it must be between " +
                         std::to_string(min) + " and " + std::to_string(max));
}

bool opens(const std::string& path, int flags) {
    return bool{Fd{::open(path.c_str(), flags | O_CLOEXEC)}};
}

Outcome<QemuPlan> plan_for(const GuestOptions& options, const std::string& vhost_socket,
                           const TempDir& scratch, const std::string& trailer) {
    const auto program = find_program(options.qemu.empty() ? "qemu-system-x86_64" : options.qemu);
    if (!program && options.qemu.empty())
        return failure("qemu-system-x86_64 is missing; install the Debian package qemu-system-x86");
    if (!program) return failure("--qemu " + options.qemu + ": there is no such program");
    TRY(const std::string version, output_of({*program, "--version"}));

    auto search = default_kernel_search();
    if (!options.kernel.empty()) search.named = options.kernel;
    search.scratch = scratch.path();
    TRY(const Kernel kernel, find_kernel(search));

    TRY(const std::string base, base_archive(kernel, !options.root_disk.empty()));
    const std::string command = command_archive({.argv = options.command,
                                                 .environment = options.environment,
                                                 .tag = options.tag,
                                                 .trailer = trailer,
                                                 .root_disk = !options.root_disk.empty(),
                                                 .reads_stdin = options.pass_stdin});
    const std::string initrd = scratch.file("initrd");
    if (const auto written = write_file(initrd, base + command); !written)
        return failure("cannot write " + initrd, written.error());

    return QemuPlan{.program = *program,
                    .version_major = qemu_version_major(version),
                    .kvm = false,
                    .cpus = options.cpus,
                    .memory_mb = options.memory_mb,
                    .request_queues = options.queues != 0 ? options.queues : options.cpus,
                    .packed = options.packed,
                    .exits_on_reboot = !options.allow_reboot,
                    .tag = options.tag,
                    .vhost_socket = vhost_socket,
                    .root_disk = options.root_disk,
                    .kernel = kernel.vmlinux,
                    .initrd = initrd,
                    .kernel_command_line = kernel_command_line(options.console)};
}

void say(const GuestOptions& options, const std::string& line) {
    const std::string text = line + "\n";
    [[maybe_unused]] const auto written = ::write(options.stderr_fd, text.data(), text.size());
}

} // namespace

Outcome<void> check(const GuestOptions& options) {
    if (options.command.empty()) return usage_failure("no command for the guest; it follows after --");
    if (options.tag.empty() || options.tag.size() > 36)
        return usage_failure("--tag is \"" + options.tag + "\"; a tag has 1 to 36 bytes");
    for (const std::string& assignment : options.environment)
        if (!is_assignment(assignment))
            return usage_failure("--env is \"" + assignment + "\"; it must be NAME=VALUE");
    // 255: CPUs of QEMU's machine type pc.  1023 queues: vectors and virtqueues of a virtio device.
    TRY_STATUS(in_range("--cpus", options.cpus, 1, 255));
    if (options.queues != 0) TRY_STATUS(in_range("--queues", options.queues, 1, 1023));
    TRY_STATUS(in_range("--memory", options.memory_mb, 128, 1024 * 1024));
    if (options.timeout.count() < 0) return usage_failure("--timeout is negative; it is a number of seconds");
    if (!options.root_disk.empty() && !opens(options.root_disk, O_RDONLY))
        return usage_failure("--root-disk " + options.root_disk + " cannot be read: " + Errno{errno}.text());
    return {};
}

Outcome<int> run_guest(const GuestOptions& options, const std::string& vhost_socket) {
    TRY_STATUS(check(options));
    const SignalGuard signals;
    const auto begin = Clock::now();
    const auto deadline = options.timeout.count() > 0 ? begin + options.timeout : Clock::time_point::max();

    bool kvm = options.accel != Accel::tcg && opens(options.kvm_device, O_RDWR);
    if (options.accel == Accel::kvm && !kvm)
        return ours(
            {.message = "--accel kvm: cannot open " + options.kvm_device + ": " + Errno{errno}.text()});

    auto scratch = TempDir::create();
    if (!scratch) return ours(std::move(scratch).error());
    const std::string trailer = TrailerFilter::random_trailer();
    auto plan = plan_for(options, vhost_socket, *scratch, trailer);
    if (!plan) return ours(std::move(plan).error());

    for (;;) {
        plan->kvm = kvm;
        const bool may_fall_back = kvm && options.accel == Accel::automatic;
        const MachineLimits limits{.deadline = deadline,
                                   .hello_limit =
                                       may_fall_back ? options.kvm_hello_limit : options.boot_limit,
                                   .may_fall_back = may_fall_back};
        const MachineEnd end = run_machine(*plan, options, trailer, limits, signals);
        switch (end.kind) {
        case MachineEnd::Kind::exited:
            return end.status;
        case MachineEnd::Kind::failed:
            return std::unexpected{Failure{.message = end.sentence, .exit_status = end.status}};
        case MachineEnd::Kind::no_kvm:
            say(options, "KVM runs no guest here (" + end.sentence + "); going on without it (TCG)");
            kvm = false;
        }
    }
}

} // namespace viaduct::guestvm
