// SPDX-License-Identifier: Apache-2.0
//
// Puts a message together from whatever pieces the socket gives.
//
// Pure but for the descriptors it owns.
#pragma once

#include "base/result.h"
#include "vhost/messages.h"

#include <array>
#include <cstddef>
#include <span>

namespace viaduct::vhost {

class MessageAssembler {
public:
    // Where the next bytes go.  Never more than the present message still lacks: descriptors that arrive with
    // bytes of one message are then never taken for another's.
    std::span<std::byte> room() noexcept;
    // `count` bytes were put into room().
    // EPROTO: a header of another version or with a size beyond kPayloadBytesMax; what follows makes no
    // sense.
    Status advance(std::size_t count);
    // A descriptor arrived with those bytes.  Beyond kFdsPerMessageMax it is closed and counted.
    void add(Fd fd);
    // Descriptors were lost on the way.
    void note_surplus() noexcept { ++message_.surplus_fds; }

    // Nothing of a message has come yet.
    bool empty() const noexcept { return received_ == 0; }
    bool complete() const noexcept {
        return received_ >= sizeof(Header) && received_ == sizeof(Header) + message_.header.size;
    }
    // Only when complete().  The next message begins.
    Message take();

private:
    std::array<std::byte, sizeof(Header)> header_{};
    Message message_;
    std::size_t received_ = 0; // bytes of the present message, header included
};

} // namespace viaduct::vhost
