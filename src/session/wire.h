// SPDX-License-Identifier: Apache-2.0
//
// The FileSystem's values in FUSE's form, and back.
#pragma once

#include "base/result.h"
#include "fs/types.h"
#include "fuse/protocol.h"

namespace viaduct::session {

// `submounts`: the client knows FUSE_ATTR_SUBMOUNT.
fuse_entry_out to_wire(const fs::Entry& entry, bool submounts) noexcept;
fuse_attr_out to_wire(const fs::AttrReply& reply) noexcept;
fuse_statx_out to_statx(const fs::AttrReply& reply) noexcept;
fuse_open_out to_wire(const fs::Opened& opened) noexcept;
fuse_statfs_out to_wire(const fs::FsStat& stat) noexcept;

// EINVAL: a time stamp whose nanoseconds are none.
Result<fs::SetAttr> from_wire(const fuse_setattr_in& in) noexcept;

} // namespace viaduct::session
