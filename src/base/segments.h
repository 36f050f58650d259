// SPDX-License-Identifier: Apache-2.0
//
// Reading from and writing to a list of memory segments (iovecs), the form in which requests and replies lie
// in guest memory.
//
// The memory may be changed by its owner at any time: a byte is copied out once and checked in the copy.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <sys/uio.h>
#include <vector>

namespace viaduct {

using Segments = std::span<const iovec>;

// Sum of the lengths.
std::size_t segments_bytes(Segments segments) noexcept;

// Copies out of segments, front to back.
class SegmentReader {
public:
    explicit SegmentReader(Segments segments) noexcept : segments_(segments) {}

    // Copies up to `bytes`; the number copied is smaller only at the end.
    std::size_t copy(void* to, std::size_t bytes) noexcept;
    // All or nothing for the caller: false when fewer bytes were left (they are consumed).
    template <class T> bool read(T& value) noexcept { return copy(&value, sizeof value) == sizeof value; }
    std::size_t skip(std::size_t bytes) noexcept;
    std::size_t remaining() const noexcept;
    // Appends what is left, at most `bytes_max` bytes of it, to `to`; consumes nothing.
    void remaining_segments(std::size_t bytes_max, std::vector<iovec>& to) const;

private:
    Segments segments_;
    std::size_t offset_ = 0; // into the first segment
};

// Copies into segments, front to back.  The one place that copies bytes into guest memory.
class SegmentWriter {
public:
    explicit SegmentWriter(Segments segments) noexcept : segments_(segments) {}

    // Copies up to `bytes`; the number copied is smaller only when the room ends.
    std::size_t write(const void* from, std::size_t bytes) noexcept;
    std::size_t skip(std::size_t bytes) noexcept;
    std::size_t room() const noexcept;

private:
    Segments segments_;
    std::size_t offset_ = 0;
};

} // namespace viaduct
