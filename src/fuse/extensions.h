// SPDX-License-Identifier: Apache-2.0
//
// What requests that make something carry behind their names: one of the caller's other groups, and a
// security context for the new object.
#pragma once

#include "fuse/decode.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::fuse {

struct Extensions {
    std::optional<std::uint32_t> group; // of the parent, where the caller is in it by its other groups
    std::string context_name;           // that of an extended attribute; empty: no security context
    std::vector<std::byte> context;
};

// Takes all that is left of a request whose names were taken.  EINVAL: a size that lies, more than one group
// or context, a name that is none; E2BIG: a context larger than attributes are.
Result<Extensions> take_extensions(Decoded& request, const Dialect& dialect);

} // namespace viaduct::fuse
