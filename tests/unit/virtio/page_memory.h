// SPDX-License-Identifier: Apache-2.0
//
// Page-aligned, zeroed memory that plays the guest's.  Guest-physical, user and host addresses of a byte all
// differ, so that a mix-up shows.
#pragma once

#include "virtio/guest_memory.h"

#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace viaduct::virtio {

class PageMemory {
public:
    static constexpr std::uint64_t kGuestStart = 0x1'0000'0000;
    static constexpr std::uint64_t kUserStart = 0x7f00'0000'0000;

    explicit PageMemory(std::size_t bytes)
        : bytes_((bytes + 4095) / 4096 * 4096),
          start_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes_))) {
        std::memset(start_.get(), 0, bytes_);
    }

    std::size_t bytes() const { return bytes_; }
    std::byte* at(std::size_t offset) const { return start_.get() + offset; }
    static GuestAddress guest(std::size_t offset) { return GuestAddress{kGuestStart + offset}; }
    static std::uint64_t user(std::size_t offset) { return kUserStart + offset; }
    GuestMemory view() const {
        return GuestMemory::make({{.guest_address = guest(0),
                                   .user_address = kUserStart,
                                   .bytes = bytes_,
                                   .host = start_.get()}})
            .value();
    }

private:
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::size_t bytes_;
    std::unique_ptr<std::byte, Free> start_;
};

} // namespace viaduct::virtio
