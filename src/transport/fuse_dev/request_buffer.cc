// SPDX-License-Identifier: Apache-2.0
#include "transport/fuse_dev/request_buffer.h"

#include "base/assert.h"
#include "fuse/protocol.h"

#include <sys/mman.h>

namespace viaduct::transport {
namespace {

constexpr std::size_t kPageBytes = 4096;
// The structs of a WRITE; those of a READ are as long.
constexpr std::size_t kStructBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
static_assert(sizeof(fuse_in_header) + sizeof(fuse_read_in) == kStructBytes);
constexpr std::size_t kHeadBytes = kPageBytes - kStructBytes;

constexpr std::size_t whole_pages(std::size_t bytes) noexcept {
    return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

} // namespace

std::unique_ptr<RequestBuffer> RequestBuffer::make(std::size_t payload_bytes_max) {
    // A page for the structs, the payload, one that a request with other structs may end in, one for a reply.
    const std::size_t bytes = whole_pages(payload_bytes_max) + 3 * kPageBytes;
    void* const memory =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return nullptr;
    return std::unique_ptr<RequestBuffer>{new RequestBuffer{static_cast<std::byte*>(memory), bytes}};
}

RequestBuffer::~RequestBuffer() {
    ::munmap(memory_, bytes_);
}

iovec RequestBuffer::in_room() const noexcept {
    return {memory_ + kHeadBytes, bytes_ - kHeadBytes - kPageBytes};
}

iovec RequestBuffer::out_room(std::size_t request_bytes) const noexcept {
    const std::size_t begin = whole_pages(kHeadBytes + request_bytes);
    ASSERT(begin < bytes_);
    return {memory_ + begin, bytes_ - begin};
}

void RequestBuffer::forget() noexcept {
    ::madvise(memory_, bytes_, MADV_DONTNEED);
}

} // namespace viaduct::transport
