// SPDX-License-Identifier: Apache-2.0
#include "driver/request.h"

#include <algorithm>

namespace viaduct::driver {
namespace {

// The first segments of `segments`, as many as hold `bytes`.
void set_beginning(std::vector<iovec>& beginning, Segments segments, std::size_t bytes) {
    beginning.clear();
    for (const iovec& segment : segments) {
        beginning.push_back(segment);
        if (segment.iov_len >= bytes) break;
        bytes -= segment.iov_len;
    }
}

} // namespace

Status Request::prepare(const DmaArena& arena, Segments in, Segments out) {
    ASSERT(place() == Place::none);
    readable_.clear();
    writable_.clear();
    for (const iovec& segment : in) {
        TRY(const virtio::GuestRange range, arena.range_of(segment.iov_base, segment.iov_len));
        readable_.push_back(range);
    }
    for (const iovec& segment : out) {
        TRY(const virtio::GuestRange range, arena.range_of(segment.iov_base, segment.iov_len));
        writable_.push_back(range);
    }
    set_beginning(in_, in, sizeof(fuse_in_header));
    set_beginning(out_, out, sizeof(fuse_out_header));
    return {};
}

void Request::prepare_raw(std::span<const virtio::GuestRange> readable,
                          std::span<const virtio::GuestRange> writable, Segments in, Segments out) {
    ASSERT(place() == Place::none);
    readable_.assign(readable.begin(), readable.end());
    writable_.assign(writable.begin(), writable.end());
    set_beginning(in_, in, sizeof(fuse_in_header));
    set_beginning(out_, out, sizeof(fuse_out_header));
}

void Request::read_header() {
    fuse_in_header header{};
    SegmentReader{in_}.copy(&header, sizeof header);
    unique_ = header.unique;
    reply_header_ = {};
}

Result<std::uint32_t> Request::verify(std::uint32_t written_bytes) {
    if (writable_.empty()) return 0;
    // Copied once: the device can still write there.
    if (!SegmentReader{out_}.read(reply_header_)) return fail(EIO);
    if (written_bytes < sizeof(fuse_out_header)) return fail(EIO);
    if (reply_header_.len != written_bytes) return fail(EIO);
    if (reply_header_.unique != unique_) return fail(EIO);
    // What Linux takes from a server; the kernel's own numbers begin there.
    if (reply_header_.error > 0 || reply_header_.error <= -512) return fail(EIO);
    return written_bytes;
}

bool RequestList::contains(const Request& request) const noexcept {
    const Request* found = first_;
    while (found != nullptr && found != &request) found = found->next_;
    return found != nullptr;
}

void RequestList::push_back(Request& request) noexcept {
    request.previous_ = last_;
    request.next_ = nullptr;
    if (last_ != nullptr) {
        last_->next_ = &request;
    } else {
        first_ = &request;
    }
    last_ = &request;
}

void RequestList::push_front(Request& request) noexcept {
    request.previous_ = nullptr;
    request.next_ = first_;
    (first_ != nullptr ? first_->previous_ : last_) = &request;
    first_ = &request;
}

void RequestList::remove(Request& request) noexcept {
    (request.previous_ != nullptr ? request.previous_->next_ : first_) = request.next_;
    (request.next_ != nullptr ? request.next_->previous_ : last_) = request.previous_;
    request.previous_ = nullptr;
    request.next_ = nullptr;
}

Request* RequestList::pop_front() noexcept {
    Request* const request = first_;
    if (request != nullptr) remove(*request);
    return request;
}

void RequestList::append(RequestList& other) noexcept {
    if (other.empty()) return;
    other.first_->previous_ = last_;
    (last_ != nullptr ? last_->next_ : first_) = other.first_;
    last_ = std::exchange(other.last_, nullptr);
    other.first_ = nullptr;
}

} // namespace viaduct::driver
