// SPDX-License-Identifier: Apache-2.0
//
// The memory table that follows from a SET_MEM_TABLE, ADD_MEM_REG or REM_MEM_REG.
//
// Nothing is changed here: a new table is made beside the present one, sharing the mappings that stay.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "vhost/memory_table.h"
#include "vhost/messages.h"

#include <memory>
#include <span>
#include <vector>

namespace viaduct::vhost {

struct MemoryChange {
    // Shared by the protocol state, the device, and requests that wait.
    std::shared_ptr<const MemoryTable> table;
    // Some mapping of the present table is not in the new one.
    bool drain = false;
};

// The whole table anew.  A region that is the same, of the same file, keeps its mapping.
Outcome<MemoryChange> replace_regions(const MemoryTable& present, std::span<const WireRegion> regions,
                                      std::vector<Fd> files);
Outcome<MemoryChange> add_region(const MemoryTable& present, const WireRegion& region, Fd file);
// Found by guest address, user address and size.
Outcome<MemoryChange> remove_region(const MemoryTable& present, const WireRegion& region);

} // namespace viaduct::vhost
