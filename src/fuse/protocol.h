// SPDX-License-Identifier: Apache-2.0
//
// The FUSE wire format: the kernel's structs and constants, and what its header may be too old for.
#pragma once

#include <cstdint>
#include <linux/fuse.h>

#include "fuse/protocol_new.h"

namespace viaduct::fuse {

// What we speak: 7.45 (Linux 6.18).  Message layouts are those of 7.12 and later, which no version since has
// changed without a flag; the lowest version that a kernel still in use sends is 7.27 (Linux 4.19).
inline constexpr std::uint32_t kMajor = 7;
inline constexpr std::uint32_t kMinor = 45;

inline constexpr std::size_t kInHeaderBytes = sizeof(fuse_in_header);
inline constexpr std::size_t kOutHeaderBytes = sizeof(fuse_out_header);

} // namespace viaduct::fuse
