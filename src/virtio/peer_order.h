// SPDX-License-Identifier: Apache-2.0
//
// The order that the thread sanitizer cannot see: memory of the guest that goes from one worker to another by
// way of the guest.
//
// A worker is done with a chain's memory before its release store of the used ring.  The guest, another
// process, sees that with an acquire load, uses the memory again for a chain of another queue, and offers it
// with a release store that the next worker's acquire load pairs with.  The sanitizer follows the operations
// of one process: nothing in this one pairs with either, and it would call what the two workers do to that
// memory a race.  These functions tell it of the order, by page of that memory, so that it learns nothing
// about whatever else workers share.  Without the sanitizer they are nothing.
#pragma once

#include "virtio/queue_layout.h"

#include <cstddef>
#include <cstdint>

#if __has_feature(thread_sanitizer)
#include <sanitizer/tsan_interface.h>
#endif

namespace viaduct::virtio {

#if __has_feature(thread_sanitizer)
namespace detail {

template <class Function>
void for_each_page(const void* start, std::size_t bytes, const Function& function) noexcept {
    constexpr std::uintptr_t kPageBytes = 4096;
    const auto first = reinterpret_cast<std::uintptr_t>(start);
    for (std::uintptr_t page = first / kPageBytes * kPageBytes; page < first + bytes; page += kPageBytes)
        function(reinterpret_cast<void*>(page));
}

} // namespace detail

// The guest has offered this memory; nothing of it has been looked at yet.
inline void taken_from_guest(const void* start, std::size_t bytes) noexcept {
    detail::for_each_page(start, bytes, __tsan_acquire);
}
// Nothing of this memory is looked at any more; what says so to the guest comes after.
inline void leave_to_guest(const void* start, std::size_t bytes) noexcept {
    detail::for_each_page(start, bytes, __tsan_release);
}
inline void taken_from_guest(const Chain& chain) noexcept {
    for (const iovec& segment : chain.readable) taken_from_guest(segment.iov_base, segment.iov_len);
    for (const iovec& segment : chain.writable) taken_from_guest(segment.iov_base, segment.iov_len);
}
inline void leave_to_guest(const Chain& chain) noexcept {
    for (const iovec& segment : chain.readable) leave_to_guest(segment.iov_base, segment.iov_len);
    for (const iovec& segment : chain.writable) leave_to_guest(segment.iov_base, segment.iov_len);
}
#else
inline void taken_from_guest(const void*, std::size_t) noexcept {}
inline void leave_to_guest(const void*, std::size_t) noexcept {}
inline void taken_from_guest(const Chain&) noexcept {}
inline void leave_to_guest(const Chain&) noexcept {}
#endif

} // namespace viaduct::virtio
