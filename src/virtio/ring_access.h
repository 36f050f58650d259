// SPDX-License-Identifier: Apache-2.0
//
// Loads from and stores to ring memory, which the other side may change at any time.
//
// Indexes, flags and event fields that the two sides hand over with are atomics (ring_load, ring_store). What
// an index guards is plain memory, touched exactly once (ring_read, ring_write): volatile keeps the compiler
// from reading a checked value a second time, and leaves the thread sanitizer able to see a missing
// hand-over. Nothing else in this folder writes to a ring, so a dirty log has these two functions to hook
// into.
#pragma once

#include <atomic>
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

template <class T> T ring_read(const T& field) noexcept {
    static_assert(std::is_integral_v<T>);
    return *static_cast<const volatile T*>(&field);
}

template <class T> void ring_write(T& field, std::type_identity_t<T> value) noexcept {
    static_assert(std::is_integral_v<T>);
    *static_cast<volatile T*>(&field) = value;
}

} // namespace viaduct::virtio
