// SPDX-License-Identifier: Apache-2.0
//
// RequestBuffer: the memory of one request of /dev/fuse and of its reply.
//
// One mapping holds both.  It is laid out so that the data of a WRITE, and that of the reply to a READ, begin
// at a page: the data goes between it and the share's page cache in whole pages.
#pragma once

#include "base/segments.h"

#include <cstddef>
#include <cstdint>
#include <memory>

namespace viaduct::transport {

class RequestBuffer {
public:
    // For requests that carry up to `payload_bytes_max` bytes behind their structs, and replies as long.
    // Null: no memory.
    static std::unique_ptr<RequestBuffer> make(std::size_t payload_bytes_max);
    ~RequestBuffer();
    RequestBuffer(const RequestBuffer&) = delete;
    RequestBuffer& operator=(const RequestBuffer&) = delete;

    // Where a request is read to.
    iovec in_room() const noexcept;
    // Where the body of its reply goes when the request has `request_bytes`: the first page behind it.  At
    // least a page.
    iovec out_room(std::size_t request_bytes) const noexcept;
    // Gives the pages of a large request back to the system.
    void forget() noexcept;

private:
    RequestBuffer(std::byte* memory, std::size_t bytes) noexcept : memory_(memory), bytes_(bytes) {}

    std::byte* const memory_;
    const std::size_t bytes_;
};

} // namespace viaduct::transport
