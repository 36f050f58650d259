// SPDX-License-Identifier: Apache-2.0
//
// Closing many descriptors with few system calls.
#pragma once

#include <span>

namespace viaduct::rt {

// Closes them all; neighbours together.  They are the caller's, each given once.  Changes their order.
void close_fds(std::span<int> fds) noexcept;

} // namespace viaduct::rt
