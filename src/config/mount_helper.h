// SPDX-License-Identifier: Apache-2.0
//
// What mount(8) says to a helper (`mount -t fuse.viaduct`, fstab), in the words of `viaduct mount`.
#pragma once

#include "base/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::config {

// Is a program called by that path the helper?
bool is_mount_helper(std::string_view program);

// From DIR MOUNTPOINT [-sfnv] [-N NAMESPACE] [-o NAME,...] [-t TYPE].  Options that concern only mount(8) and
// fstab are left out; one that is none of the kernel's becomes an option of `viaduct mount`: cache=never
// means
// --cache never.  nullopt: there is nothing to do (-f).
Outcome<std::optional<std::vector<std::string>>> mount_helper_words(int argc, const char* const* argv);

} // namespace viaduct::config
