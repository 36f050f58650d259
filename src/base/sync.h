// SPDX-License-Identifier: Apache-2.0
//
// Locks and shared atomics, counted in debug builds.
//
// What workers share goes through these types, so that a test can assert that serving a request takes no lock
// and writes no shared line.  Counting is per thread and compiled in where VIADUCT_COUNT_SYNC is set (every
// preset but `release`).  Every operation names its memory order; there are no fences.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

namespace viaduct::sync {

// What the calling thread has done since it started.
struct Counts {
    std::uint64_t locks = 0;         // mutexes taken
    std::uint64_t shared_writes = 0; // stores and read-modify-writes on Shared<T>
};

#ifdef VIADUCT_COUNT_SYNC
inline constexpr bool kCounting = true;
Counts& counts() noexcept;
#else
inline constexpr bool kCounting = false;
#endif

inline Counts counted() noexcept {
#ifdef VIADUCT_COUNT_SYNC
    return counts();
#else
    return {};
#endif
}

inline void note_lock() noexcept {
#ifdef VIADUCT_COUNT_SYNC
    ++counts().locks;
#endif
}
inline void note_write() noexcept {
#ifdef VIADUCT_COUNT_SYNC
    ++counts().shared_writes;
#endif
}

// std::mutex that counts.
class Mutex {
public:
    void lock() {
        note_lock();
        mutex_.lock();
    }
    bool try_lock() {
        note_lock();
        return mutex_.try_lock();
    }
    void unlock() { mutex_.unlock(); }
    std::mutex& native() { return mutex_; }

private:
    std::mutex mutex_;
};

using Lock = std::unique_lock<Mutex>;

// std::atomic whose writes count as writes to a line that other threads read.
template <class T> class Shared {
public:
    constexpr Shared() noexcept : value_() {}
    constexpr explicit Shared(T value) noexcept : value_(value) {}

    T load(std::memory_order order) const noexcept { return value_.load(order); }
    void store(T value, std::memory_order order) noexcept {
        note_write();
        value_.store(value, order);
    }
    T exchange(T value, std::memory_order order) noexcept {
        note_write();
        return value_.exchange(value, order);
    }
    T fetch_add(T value, std::memory_order order) noexcept {
        note_write();
        return value_.fetch_add(value, order);
    }
    T fetch_sub(T value, std::memory_order order) noexcept {
        note_write();
        return value_.fetch_sub(value, order);
    }
    bool compare_exchange_weak(T& expected, T desired, std::memory_order success,
                               std::memory_order failure) noexcept {
        note_write();
        return value_.compare_exchange_weak(expected, desired, success, failure);
    }
    bool compare_exchange_strong(T& expected, T desired, std::memory_order success,
                                 std::memory_order failure) noexcept {
        note_write();
        return value_.compare_exchange_strong(expected, desired, success, failure);
    }

private:
    std::atomic<T> value_;
};

// A counter with one writer and any number of readers: a plain increment that readers may see late.
class Counter {
public:
    void add(std::uint64_t n = 1) noexcept {
        value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
    }
    std::uint64_t get() const noexcept { return value_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::uint64_t> value_{0};
};

} // namespace viaduct::sync
