// SPDX-License-Identifier: Apache-2.0
#include "vhost/assembler.h"

#include "base/assert.h"

#include <utility>

namespace viaduct::vhost {

std::span<std::byte> MessageAssembler::room() noexcept {
    if (received_ < sizeof(Header)) return std::span{header_}.subspan(received_);
    return std::span{message_.payload}.subspan(received_ - sizeof(Header));
}

Status MessageAssembler::advance(std::size_t count) {
    ASSERT(count <= room().size());
    const bool in_header = received_ < sizeof(Header);
    received_ += count;
    if (!in_header || received_ < sizeof(Header)) return {};

    std::memcpy(&message_.header, header_.data(), sizeof(Header));
    if ((message_.header.flags & kFlagVersionMask) != kFlagVersion) return fail(EPROTO);
    if (message_.header.size > kPayloadBytesMax) return fail(EPROTO);
    message_.payload.resize(message_.header.size);
    return {};
}

void MessageAssembler::add(Fd fd) {
    if (message_.fds.size() < kFdsPerMessageMax) {
        message_.fds.push_back(std::move(fd));
    } else {
        ++message_.surplus_fds;
    }
}

Message MessageAssembler::take() {
    ASSERT(complete());
    received_ = 0;
    return std::exchange(message_, Message{});
}

} // namespace viaduct::vhost
