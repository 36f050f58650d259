// SPDX-License-Identifier: Apache-2.0
//
// A request on its way to a device, and lists of them.
#pragma once

#include "base/assert.h"
#include "base/result.h"
#include "base/segments.h"
#include "driver/dma_arena.h"
#include "fuse/protocol.h"
#include "virtio/driver_queue.h"
#include "virtio/ring_access.h"

#include <atomic>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace viaduct::driver {

class BackgroundLimit;
class RequestQueue;

class Request {
public:
    // Names the memory of the request and of its reply: `in` from fuse_in_header on; `out` empty when no
    // reply is wanted.  Kept from one submit() to the next; only while the queue does not hold the request.
    // EFAULT: not memory of the arena.
    Status prepare(const DmaArena& arena, Segments in, Segments out);
    // For what no honest driver sends: any guest addresses.  `in` and `out` say where the headers lie for us.
    void prepare_raw(std::span<const virtio::GuestRange> readable,
                     std::span<const virtio::GuestRange> writable, Segments in, Segments out);

    // The reply's header as it was when it was checked; all zero for a request without a reply.
    const fuse_out_header& reply_header() const noexcept { return reply_header_; }
    std::uint64_t unique() const noexcept { return unique_; }

protected:
    Request() = default;
    ~Request() { ASSERT(place() == Place::none); }
    Request(const Request&) = delete;
    Request& operator=(const Request&) = delete;

    // The queue is done with the request, which may be submitted again, or end, in here.  Called once for
    // each submit() that succeeded, with no lock held, on whatever thread found the end. The value: bytes of
    // the reply, header included.  EIO: the reply's length or unique is a lie, its error is none, or the ring
    // is broken.
    // ECONNABORTED: the device was stopped or has died.  EINTR: withdrawn.
    virtual void done(Result<std::uint32_t> reply_bytes) = 0;

private:
    friend class BackgroundLimit;
    friend class RequestList;
    friend class RequestQueue;
    friend class StagedDispatch;
    enum class Place : std::uint8_t { none, waiting, parked, ring, ended }; // waiting: not the queue's yet

    Place place() const noexcept { return place_.load(std::memory_order_relaxed); }
    void set_place(Place place) noexcept { place_.store(place, std::memory_order_relaxed); }

    // Reads what replies are compared with.
    void read_header();
    void approach_reply() const noexcept {
        if (!out_.empty()) virtio::prefetch_to_read(out_.front().iov_base);
    }
    // What the kernel's virtio_fs_verify_response() checks, and the range of errors.
    Result<std::uint32_t> verify(std::uint32_t written_bytes);

    std::vector<virtio::GuestRange> readable_;
    std::vector<virtio::GuestRange> writable_;
    std::vector<iovec> in_;  // as far as the header reaches
    std::vector<iovec> out_; // the same
    std::uint64_t unique_ = 0;
    fuse_out_header reply_header_{};
    // The queue's; before that of whoever holds the request back.
    BackgroundLimit* background_ = nullptr; // one that counts this request
    RequestQueue* queue_next_ = nullptr;    // where it goes when its turn comes
    Request* previous_ = nullptr;
    Request* next_ = nullptr;
    // Becomes and stops being `parked` under the queue's lock only; the last change, to `none`, is made
    // without.
    std::atomic<Place> place_{Place::none};
    Result<std::uint32_t> result_ = 0;
};

// Requests in a row, linked through themselves; owns none.
class RequestList {
public:
    RequestList() = default;
    RequestList(RequestList&& other) noexcept
        : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
    RequestList& operator=(RequestList&&) = delete;

    bool empty() const noexcept { return first_ == nullptr; }
    bool contains(const Request& request) const noexcept; // looks at each
    Request* first() const noexcept { return first_; }
    void push_back(Request& request) noexcept;
    void push_front(Request& request) noexcept;
    void remove(Request& request) noexcept;
    Request* pop_front() noexcept;
    // Moves all of `other` behind what is here.
    void append(RequestList& other) noexcept;

private:
    Request* first_ = nullptr;
    Request* last_ = nullptr;
};

} // namespace viaduct::driver
