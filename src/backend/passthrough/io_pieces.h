// SPDX-License-Identifier: Apache-2.0
//
// The rest of a list of segments, in the form that preadv(2) and its kin take.
#pragma once

#include "base/segments.h"

#include <array>
#include <climits>

namespace viaduct::passthrough {

class Pieces {
public:
    // What comes after the first `done` bytes (fewer than there are): at least one piece, not always all of
    // it. Valid until the next call.
    Segments after(Segments segments, std::size_t done) noexcept {
        if (done == 0) return segments.first(segments.size() < IOV_MAX ? segments.size() : IOV_MAX);
        std::size_t index = 0;
        while (done >= segments[index].iov_len) done -= segments[index++].iov_len;
        std::size_t count = 0;
        while (count < room_.size() && index < segments.size()) room_[count++] = segments[index++];
        room_[0].iov_base = static_cast<char*>(room_[0].iov_base) + done;
        room_[0].iov_len -= done;
        return {room_.data(), count};
    }

private:
    // 64 pages are 256 KiB a call; the whole list is used as it is where nothing has to be cut off.
    std::array<iovec, 64> room_;
};

} // namespace viaduct::passthrough
