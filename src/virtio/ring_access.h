// SPDX-License-Identifier: Apache-2.0
//
// Loads from and stores to ring memory, which the other side may change at any time.
//
// Indexes, flags and event fields that the two sides hand over with are atomics (ring_load, ring_store). What
// an index guards is plain memory, touched exactly once (ring_read, ring_write): volatile keeps the compiler
// from reading a checked value a second time, and leaves the thread sanitizer able to see a missing
// hand-over. Nothing else in this folder writes to a ring, so a dirty log has these two functions to hook
// into.  Prefetches read nothing: they are hints.
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

namespace viaduct::virtio {

template <class T> T ring_load(const T& field, std::memory_order order) noexcept {
    static_assert(std::atomic_ref<T>::is_always_lock_free);
    return std::atomic_ref<T>{const_cast<T&>(field)}.load(order);
}

template <class T>
void ring_store(T& field, std::type_identity_t<T> value, std::memory_order order) noexcept {
    std::atomic_ref<T>{field}.store(value, order);
}

// The line of `address` is going to be read.
inline void prefetch_to_read(const void* address) noexcept {
    __builtin_prefetch(address);
}
// The line of `address` is going to be written: other processors give it up.
inline void prefetch_to_write(const void* address) noexcept {
#if defined(__x86_64__)
    // __builtin_prefetch() takes this one only where a processor is named that has it; others do nothing.
    asm volatile("prefetchw %0" : : "m"(*static_cast<const std::byte*>(address)));
#else
    __builtin_prefetch(address, 1);
#endif
}

template <class T> T ring_read(const T& field) noexcept {
    static_assert(std::is_integral_v<T>);
    return *static_cast<const volatile T*>(&field);
}

template <class T> void ring_write(T& field, std::type_identity_t<T> value) noexcept {
    static_assert(std::is_integral_v<T>);
    *static_cast<volatile T*>(&field) = value;
}

} // namespace viaduct::virtio
