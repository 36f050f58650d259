// SPDX-License-Identifier: Apache-2.0
//
// Directory entries from a FileSystem straight into the reply.
#pragma once

#include "fs/file_system.h"
#include "fuse/encode.h"

namespace viaduct::session {

class PackedDirents final : public fs::DirentSink {
public:
    void begin(Segments out, bool plus, std::size_t bytes_max, bool submounts) noexcept {
        packer_ = fuse::DirentPacker{out, plus, bytes_max};
        submounts_ = submounts;
        full_ = false;
    }

    bool add(const Dirent& dirent, const fs::Entry* entry) override;
    bool has_room(std::size_t name_bytes) const override {
        const bool room = packer_.has_room(name_bytes);
        full_ = full_ || !room;
        return room;
    }
    // There was an entry for which there was no room.
    bool full() const noexcept { return full_; }
    std::size_t packed_bytes() const noexcept { return packer_.packed_bytes(); }

private:
    fuse::DirentPacker packer_;
    bool submounts_ = false;
    mutable bool full_ = false;
};

} // namespace viaduct::session
