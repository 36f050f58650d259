// SPDX-License-Identifier: Apache-2.0
#include "rt/frame_pool.h"

#include <array>
#include <new>

namespace viaduct::rt {
namespace {

constexpr std::size_t kClassBytes = 128;
constexpr std::size_t class_of(std::size_t bytes) {
    return (bytes - 1) / kClassBytes;
}

#ifndef VIADUCT_SANITIZED               // the sanitizers see use-after-free only when the heap is used
constexpr std::size_t kClassCount = 32; // frames up to 4 KiB
constexpr std::size_t kKeptPerClassMax = 256;

struct FreeFrame {
    FreeFrame* next;
};

// One list per size class.  Frames of a thread that ends go back to the heap.
struct ThreadLists {
    struct List {
        FreeFrame* head = nullptr;
        std::size_t count = 0;
    };
    std::array<List, kClassCount> lists;

    ~ThreadLists() {
        for (List& list : lists) {
            while (list.head != nullptr) {
                FreeFrame* const frame = list.head;
                list.head = frame->next;
                ::operator delete(frame);
            }
        }
    }
};

ThreadLists& lists() {
    thread_local ThreadLists per_thread;
    return per_thread;
}

#endif

} // namespace

void* allocate_frame(std::size_t bytes) {
    const std::size_t index = class_of(bytes);
#ifndef VIADUCT_SANITIZED
    if (index < kClassCount) {
        auto& list = lists().lists[index];
        if (list.head != nullptr) {
            FreeFrame* const frame = list.head;
            list.head = frame->next;
            --list.count;
            return frame;
        }
    }
#endif
    return ::operator new((index + 1) * kClassBytes);
}

void free_frame(void* frame, std::size_t bytes) noexcept {
#ifndef VIADUCT_SANITIZED
    const std::size_t index = class_of(bytes);
    if (index < kClassCount) {
        auto& list = lists().lists[index];
        if (list.count < kKeptPerClassMax) {
            list.head = new (frame) FreeFrame{list.head};
            ++list.count;
            return;
        }
    }
#endif
    (void)bytes;
    ::operator delete(frame);
}

} // namespace viaduct::rt
