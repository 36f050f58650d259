// SPDX-License-Identifier: Apache-2.0
#include "guestvm/qemu.h"

#include <charconv>

namespace viaduct::guestvm {
namespace {

// In QEMU's option lists a comma ends a value; doubled it stands for itself.
std::string quoted(std::string_view value) {
    std::string text;
    for (const char c : value) {
        text.push_back(c);
        if (c == ',') text.push_back(c);
    }
    return text;
}

std::string cpu_model(const QemuPlan& plan) {
    if (plan.kvm) return "host";
    // cmpxchg16b of QEMU 7.2's code generator corrupts registers: Linux 6.12 uses it in its allocator and
    // most boots oopsed.  Without the bit: no oops in 32 boots.
    return plan.version_major < 8 ? "max,-cx16" : "max";
}

} // namespace

std::vector<std::string> qemu_command(const QemuPlan& plan) {
    const std::string memory = std::to_string(plan.memory_mb) + "M";
    std::vector<std::string> argv{
        plan.program, "-nodefaults", "-no-user-config", "-display", "none",
        // pc rather than q35: a CPU second less to boot under emulation.
        "-machine", std::string{"pc,memory-backend=memory,accel="} + (plan.kvm ? "kvm" : "tcg"), "-cpu",
        cpu_model(plan), "-smp", std::to_string(plan.cpus), "-m", memory, "-object",
        "memory-backend-memfd,id=memory,share=on,size=" + memory, "-kernel", plan.kernel, "-initrd",
        plan.initrd, "-append", plan.kernel_command_line, "-chardev",
        "socket,id=console,fd=" + std::to_string(plan.console_fd), "-serial", "chardev:console", "-device",
        "virtio-serial-pci,max_ports=8"};
    const auto add = [&argv](std::string option, std::string value) {
        argv.push_back(std::move(option));
        argv.push_back(std::move(value));
    };
    if (plan.exits_on_reboot) argv.emplace_back("-no-reboot");
    for (int i = 0; i < 4; ++i) {
        const std::string id = "port" + std::to_string(i);
        add("-chardev", "socket,id=" + id + ",fd=" + std::to_string(plan.port_fds[i]));
        add("-device", "virtserialport,chardev=" + id + ",name=" + kPortNames[i]);
    }
    add("-chardev", "socket,id=share,path=" + quoted(plan.vhost_socket));
    add("-device", "vhost-user-fs-pci,chardev=share,tag=" + quoted(plan.tag) + ",num-request-queues=" +
                       std::to_string(plan.request_queues) + (plan.packed ? ",packed=on" : ""));
    if (!plan.root_disk.empty()) {
        add("-drive", "if=none,id=root,format=raw,readonly=on,file=" + quoted(plan.root_disk));
        add("-device", "virtio-blk-pci,drive=root");
    }
    return argv;
}

std::string kernel_command_line(bool verbose) {
    // What is switched off is what a guest of a few seconds never uses and what boots measurably slower with:
    // the jitter entropy source (the CPU's generator is trusted instead), certificates, keyboard controller,
    // IPv6, audit.
    std::string line =
        "console=ttyS0 panic=-1 oops=panic reboot=t random.trust_cpu=on ipv6.disable=1 audit=0 "
        "mitigations=off nokaslr no_timer_check 8250.nr_uarts=1 cryptomgr.notests "
        "initcall_blacklist=jent_mod_init,load_system_certificate_list,i8042_init";
    line += verbose ? " loglevel=7" : " loglevel=3";
    return line;
}

unsigned qemu_version_major(std::string_view version_output) {
    constexpr std::string_view before = "version ";
    const auto at = version_output.find(before);
    if (at == std::string_view::npos) return 0;
    const std::string_view number = version_output.substr(at + before.size());
    unsigned major = 0;
    std::from_chars(number.data(), number.data() + number.size(), major);
    return major;
}

} // namespace viaduct::guestvm
