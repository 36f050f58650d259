// SPDX-License-Identifier: Apache-2.0
#include "base/segments.h"

#include <algorithm>

namespace viaduct {
namespace {

// Walks `bytes` forward through `segments`, calling visit(pointer, length) for each piece.
template <class Visit>
std::size_t advance(Segments& segments, std::size_t& offset, std::size_t bytes, Visit visit) noexcept {
    std::size_t done = 0;
    while (done < bytes && !segments.empty()) {
        const iovec& first = segments.front();
        const std::size_t piece = std::min(bytes - done, first.iov_len - offset);
        if (piece > 0) visit(static_cast<std::byte*>(first.iov_base) + offset, piece, done);
        done += piece;
        offset += piece;
        if (offset == first.iov_len) {
            segments = segments.subspan(1);
            offset = 0;
        }
    }
    return done;
}

void append_rest(Segments segments, std::size_t offset, std::size_t bytes_max, std::vector<iovec>& to) {
    for (const iovec& segment : segments) {
        if (bytes_max == 0) return;
        const std::size_t length = std::min(segment.iov_len - offset, bytes_max);
        if (length > 0) to.push_back({static_cast<std::byte*>(segment.iov_base) + offset, length});
        bytes_max -= length;
        offset = 0;
    }
}

} // namespace

std::size_t segments_bytes(Segments segments) noexcept {
    std::size_t sum = 0;
    for (const iovec& segment : segments) sum += segment.iov_len;
    return sum;
}

std::size_t SegmentReader::copy(void* to, std::size_t bytes) noexcept {
    return advance(segments_, offset_, bytes,
                   [to](const std::byte* from, std::size_t length, std::size_t at) {
                       std::memcpy(static_cast<std::byte*>(to) + at, from, length);
                   });
}

std::size_t SegmentReader::skip(std::size_t bytes) noexcept {
    return advance(segments_, offset_, bytes, [](const std::byte*, std::size_t, std::size_t) {});
}

std::size_t SegmentReader::remaining() const noexcept {
    return segments_bytes(segments_) - offset_;
}

void SegmentReader::remaining_segments(std::size_t bytes_max, std::vector<iovec>& to) const {
    append_rest(segments_, offset_, bytes_max, to);
}

std::size_t SegmentWriter::write(const void* from, std::size_t bytes) noexcept {
    return advance(segments_, offset_, bytes, [from](std::byte* to, std::size_t length, std::size_t at) {
        std::memcpy(to, static_cast<const std::byte*>(from) + at, length);
    });
}

std::size_t SegmentWriter::skip(std::size_t bytes) noexcept {
    return advance(segments_, offset_, bytes, [](const std::byte*, std::size_t, std::size_t) {});
}

std::size_t SegmentWriter::room() const noexcept {
    return segments_bytes(segments_) - offset_;
}

} // namespace viaduct
