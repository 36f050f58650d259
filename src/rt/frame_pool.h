// SPDX-License-Identifier: Apache-2.0
//
// Memory for coroutine frames: free lists per thread, so that a request that waits allocates nothing once the
// lists are warm.
//
// A frame is usually freed on the thread that made it; one that is not simply ends up in the other list.
#pragma once

#include <cstddef>

namespace viaduct::rt {

void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes) noexcept;

// Base of promise types: their coroutine frames come from the pool.
struct PooledFrame {
    static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
    static void operator delete(void* frame, std::size_t bytes) noexcept { free_frame(frame, bytes); }
};

} // namespace viaduct::rt
