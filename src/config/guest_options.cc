// SPDX-License-Identifier: Apache-2.0
#include "config/guest_options.h"

#include <algorithm>

namespace viaduct::config {

Outcome<GuestCommand> parse_guest(int argc, const char* const* argv) {
    GuestCommand command;
    CommandLine line{"viaduct guest", "--share DIR [OPTION...] -- COMMAND [ARGUMENT...]",
                     "Boots a throw-away virtual machine with a directory mounted and runs a command in it."};
    line.text("--share", command.share, "DIR", "The directory to mount; the command starts in it");
    line.text("--socket", command.socket, "PATH", "Use the daemon that listens here instead of starting one");
    line.number("--queues", command.queues, 0, 64, "N", "Request queues; 0: one per CPU");
    line.number("--cpus", command.cpus, 1, 64, "M", "CPUs of the guest");
    line.number("--memory", command.memory_mb, 128, 1 << 20, "MB", "Memory of the guest; MiB");
    line.text("--kernel", command.kernel, "K", "Guest kernel: a vmlinux or bzImage, or a folder with one");
    line.text("--qemu", command.qemu, "Q", "QEMU to run (default qemu-system-x86_64)");
    line.choice("--accel", command.accel, {"auto", "kvm", "tcg"}, "auto: KVM where it works, else emulation");
    line.text("--root-disk", command.root_disk, "IMG", "Run the command in this ext4 image, read-only");
    line.texts("--env", command.environment, "A=B", "Set a variable for the command; may be repeated");
    line.text("--tag", command.tag, "TAG", "Tag of the share");
    line.flag("--console", command.console, "Show the guest's kernel messages on stderr");
    line.flag("--packed", command.packed, "Packed virtqueues (needs QEMU 10)");
    line.flag("--allow-reboot", command.allow_reboot, "A guest that reboots runs the command again");
    line.flag("--stdin", command.pass_stdin, "Pass standard input to the command");
    line.number("--timeout", command.timeout_s, 0, 86'400, "S",
                "End it all after this long; 0: never; seconds");
    line.text("--stats-file", command.stats_file, "PATH", "Where the daemon writes its count of requests");
    line.texts("--serve-option", command.serve_options, "WORD",
               "Hand a word on to viaduct serve; may be repeated");
    // What stands behind "--" is the command's, options included.
    const auto separator =
        std::find_if(argv, argv + argc, [](const char* word) { return std::string{word} == "--"; });
    if (separator != argv + argc) command.command.assign(separator + 1, argv + argc);
    TRY(command.request, line.parse(static_cast<int>(separator - argv), argv));
    command.help = line.help();
    if (command.request != Request::run) return command;
    if (command.share.empty() && command.socket.empty())
        return usage_failure("--share is missing; give the directory to mount");
    if (command.command.empty())
        return usage_failure(
            "there is no command; give it behind \"--\", for example: viaduct guest --share . -- ls");
    return command;
}

} // namespace viaduct::config
