// SPDX-License-Identifier: Apache-2.0
//
// The guest's initial file system: busybox, modules the kernel has not built in, /init, and the command.
#pragma once

#include "base/result.h"
#include "guestvm/kernel.h"

#include <string>
#include <string_view>
#include <vector>

namespace viaduct::guestvm {

struct GuestCommand {
    std::vector<std::string> argv;
    std::vector<std::string> environment; // NAME=VALUE
    std::string tag;
    std::string trailer;    // sent after the command's output, on both streams
    bool root_disk = false; // the command runs in the file system of the first virtio disk
    bool reads_stdin = false;
};

// Busybox, modules, /init.
Outcome<std::string> base_archive(const Kernel& kernel, bool root_disk);
// The command; appended to the base archive.
std::string command_archive(const GuestCommand& command);

// 'it'\''s': one word for a shell, whatever is in it.
std::string shell_quoted(std::string_view word);
// NAME=VALUE with a NAME that a shell can export.
bool is_assignment(std::string_view text);

} // namespace viaduct::guestvm
