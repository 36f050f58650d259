// SPDX-License-Identifier: Apache-2.0
#include "session/dirents.h"

#include "session/wire.h"

namespace viaduct::session {

bool PackedDirents::add(const Dirent& dirent, const fs::Entry* entry) {
    if (!has_room(dirent.name.size())) return false;
    if (entry == nullptr)
        return packer_.add(dirent.name, dirent.inode, dirent.next_offset, dirent.type, nullptr);
    const fuse_entry_out wire = to_wire(*entry, submounts_);
    return packer_.add(dirent.name, dirent.inode, dirent.next_offset, dirent.type, &wire);
}

} // namespace viaduct::session
