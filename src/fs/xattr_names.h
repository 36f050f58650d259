// SPDX-License-Identifier: Apache-2.0
//
// Lists of names of extended attributes, as listxattr(2) gives them: each name ends with a NUL.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace viaduct::fs {

// No list is longer (XATTR_LIST_MAX); bytes.
inline constexpr std::size_t kXattrListBytesMax = 65536;

// An ACL that is stored but not enforced by the client's kernel would be worse than none.
constexpr bool is_acl_name(std::string_view name) noexcept {
    return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

// Puts the names of `all` into `into`, each as shown(name) has it; nullopt leaves it out.  The bytes they
// take; with an empty `into` that is all that is asked for.  ERANGE: they do not fit.
template <class Shown>
Result<std::size_t> put_xattr_names(std::string_view all, std::span<std::byte> into, Shown shown) {
    std::size_t bytes = 0;
    while (!all.empty()) {
        const std::string_view name = all.substr(0, all.find('\0'));
        all.remove_prefix(std::min(all.size(), name.size() + 1));
        const std::optional<std::string_view> seen = shown(name);
        if (!seen) continue;
        const std::size_t end = bytes + seen->size() + 1;
        if (!into.empty()) {
            if (end > into.size()) return fail(ERANGE);
            std::memcpy(into.data() + bytes, seen->data(), seen->size());
            into[end - 1] = std::byte{0};
        }
        bytes = end;
    }
    return bytes;
}

} // namespace viaduct::fs
