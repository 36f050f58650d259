// SPDX-License-Identifier: Apache-2.0
#include "guestvm/initramfs.h"

#include "guestvm/cpio.h"
#include "guestvm/files.h"
#include "guestvm/init_script.h"
#include "guestvm/modules.h"
#include "guestvm/process.h"

#include <algorithm>
#include <cstring>
#include <elf.h>
#include <ranges>

namespace viaduct::guestvm {
namespace {

// Module files are unpacked here: the guest's emulated CPUs would take longer.
Outcome<std::string> module_contents(const std::string& path) {
    const auto packed_with = [&path](const char* suffix) { return path.ends_with(suffix); };
    if (packed_with(".xz")) return output_of({"xz", "-dcq", path});
    if (packed_with(".zst")) return output_of({"zstd", "-dcq", path});
    if (packed_with(".gz")) return output_of({"gzip", "-dcq", path});
    auto contents = read_file(path);
    if (!contents) return failure("cannot read " + path, contents.error());
    return *std::move(contents);
}

Outcome<void> add_modules(CpioWriter& archive, const Kernel& kernel, bool root_disk) {
    std::vector<std::string> wanted{"virtio_pci", "virtio_console", "virtiofs"};
    if (root_disk) wanted.insert(wanted.end(), {"virtio_blk", "ext4"});
    std::string list;
    if (!kernel.modules.empty()) {
        const auto dependencies = read_file(kernel.modules + "/modules.dep");
        const auto builtin = read_file(kernel.modules + "/modules.builtin");
        if (!dependencies)
            return failure("cannot read " + kernel.modules + "/modules.dep", dependencies.error());
        const ModuleIndex index{*dependencies, builtin.value_or("")};
        TRY(const auto paths, index.load_order(wanted));
        for (const std::string& path : paths) {
            TRY(const std::string contents, module_contents(kernel.modules + "/" + path));
            const std::string name = "modules/" + module_name(path) + ".ko";
            archive.file(name, contents);
            list += "/" + name + "\n";
        }
    }
    // Without a modules folder the kernel is taken to have everything built in; /init says what it misses.
    archive.file("viaduct/modules", list);
    return {};
}

// A program header PT_INTERP: dynamically linked.
bool needs_loader(std::string_view elf) {
    Elf64_Ehdr header;
    if (elf.size() < sizeof header) return false;
    std::memcpy(&header, elf.data(), sizeof header);
    for (std::size_t i = 0; i < header.e_phnum; ++i) {
        Elf64_Phdr segment;
        const std::size_t at = header.e_phoff + i * sizeof segment;
        if (at > elf.size() || elf.size() - at < sizeof segment) return false;
        std::memcpy(&segment, elf.data() + at, sizeof segment);
        if (segment.p_type == PT_INTERP) return true;
    }
    return false;
}

} // namespace

Outcome<std::string> base_archive(const Kernel& kernel, bool root_disk) {
    // "busybox" alone may be Debian's dynamically linked one; busybox-static replaces it under the same name.
    const auto busybox = find_program("busybox");
    if (!busybox) return failure("busybox is missing; install the Debian package busybox-static");
    const auto program = read_file(*busybox);
    if (!program) return failure("cannot read " + *busybox, program.error());
    if (needs_loader(*program))
        return failure(*busybox + " needs shared libraries; install the Debian package busybox-static");

    TRY(const std::string applets, output_of({*busybox, "--list"}));

    CpioWriter archive;
    for (const char* const folder : {"dev", "proc", "sys", "tmp", "run", "mnt", "root", "etc", "disk"})
        archive.directory(folder);
    archive.character_device("dev/console", 5, 1);
    archive.file("bin/busybox", *program, 0755);
    for (const auto line : std::views::split(applets, '\n')) {
        const std::string applet{line.begin(), line.end()};
        if (!applet.empty() && applet != "busybox") archive.symlink("bin/" + applet, "busybox");
    }
    archive.symlink("sbin", "bin");
    archive.file("etc/passwd", "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n");
    archive.file("etc/group", "root:x:0:\nnogroup:x:65534:\n");
    archive.file("init", kInitScript, 0755);
    TRY_STATUS(add_modules(archive, kernel, root_disk));
    return archive.finish();
}

std::string command_archive(const GuestCommand& command) {
    std::string script = "export HOME=/root TERM=dumb VIADUCT_TAG=" + shell_quoted(command.tag) + "\n";
    for (const std::string& assignment : command.environment) {
        const auto equals = assignment.find('=');
        script +=
            "export " + assignment.substr(0, equals + 1) + shell_quoted(assignment.substr(equals + 1)) + "\n";
    }
    script += "cd /mnt\nexec";
    for (const std::string& word : command.argv) script += " " + shell_quoted(word);
    script += "\n";

    CpioWriter archive;
    archive.file("viaduct/command", script, 0755);
    archive.file("viaduct/settings", "tag=" + shell_quoted(command.tag) +
                                         "\ntrailer=" + shell_quoted(command.trailer) +
                                         "\nroot_disk=" + (command.root_disk ? "yes" : "") +
                                         "\nreads_stdin=" + (command.reads_stdin ? "yes" : "") + "\n");
    return archive.finish();
}

std::string shell_quoted(std::string_view word) {
    std::string quoted = "'";
    for (const char c : word) {
        if (c == '\'')
            quoted += "'\\''";
        else
            quoted.push_back(c);
    }
    return quoted + "'";
}

bool is_assignment(std::string_view text) {
    const auto name = text.substr(0, text.find('='));
    const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
    return name.size() < text.size() && !name.empty() && letter(name[0]) &&
           std::ranges::all_of(name, [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

} // namespace viaduct::guestvm
