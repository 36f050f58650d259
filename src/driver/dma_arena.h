// SPDX-License-Identifier: Apache-2.0
//
// Memory that a device may use: regions, each a memfd of its own, and buffers handed out of them.
//
// All regions lie in one reserved range of our address space, in the order in which they were made and
// touching each other; what the device sees as guest address differs from our address by one constant.  A
// buffer may run across two regions, as a guest's memory does.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "base/sync.h"
#include "virtio/driver_queue.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace viaduct::driver {

class DmaArena;

// A piece of an arena; given back when it goes.  The arena outlives it.
class DmaBuffer {
public:
    DmaBuffer() = default;
    DmaBuffer(DmaBuffer&& other) noexcept
        : arena_(std::exchange(other.arena_, nullptr)), bytes_(std::exchange(other.bytes_, {})) {}
    DmaBuffer& operator=(DmaBuffer&& other) noexcept;
    ~DmaBuffer();

    std::byte* data() const noexcept { return bytes_.data(); }
    std::size_t size() const noexcept { return bytes_.size(); }
    std::span<std::byte> bytes() const noexcept { return bytes_; }

private:
    friend class DmaArena;
    DmaBuffer(DmaArena& arena, std::span<std::byte> bytes) noexcept : arena_(&arena), bytes_(bytes) {}

    DmaArena* arena_ = nullptr;
    std::span<std::byte> bytes_;
};

struct DmaRegion {
    virtio::GuestAddress guest_address{};
    std::byte* host = nullptr;
    std::uint64_t bytes = 0;
    Fd file;
};

class DmaArena {
public:
    struct Options {
        std::uint64_t bytes = 64ULL << 20;    // of the first region
        std::uint64_t bytes_max = 4ULL << 30; // of all regions together; only address space is taken
    };
    // Sizes are rounded up to whole pages.
    static Result<std::unique_ptr<DmaArena>> make(const Options& options);
    ~DmaArena();

    // A further region behind the last one.  Nothing is handed out of it before admit(): the device must be
    // told first.  ENOSPC: beyond bytes_max.  Regions live as long as the arena.
    Result<const DmaRegion*> grow(std::uint64_t bytes);
    void admit(const DmaRegion& region);
    // Nothing more is handed out of the region; what has been handed out stays memory.
    void retire(const DmaRegion& region);
    // Those that are admitted.
    std::vector<const DmaRegion*> regions() const;

    // ENOMEM: no free piece is large enough.  `alignment`: a power of two, at most 4096.
    Result<DmaBuffer> allocate(std::size_t bytes, std::size_t alignment = 64);

    // Guest address of memory in the arena.  EFAULT: some of it is not.
    Result<virtio::GuestRange> range_of(const void* data, std::size_t bytes) const noexcept;
    virtio::GuestAddress address_of(const std::byte* data) const noexcept;

private:
    friend class DmaBuffer;
    DmaArena(std::byte* base, std::uint64_t bytes_max) noexcept : base_(base), bytes_max_(bytes_max) {}
    void give_back(std::span<std::byte> bytes) noexcept;
    struct Extent {
        std::uint64_t start = 0; // offset from base_
        std::uint64_t end = 0;
    };
    Extent extent_of(const DmaRegion& region) const noexcept;
    // With the lock held.
    void add_free(Extent extent);
    void remove_free(Extent extent);

    // A guest has its memory below 3 GiB and from 4 GiB on; ours begins where the second part does, so that
    // an address cut to 32 bits shows.
    static constexpr std::uint64_t kGuestStart = 1ULL << 32;

    std::byte* const base_; // of the reserved range
    const std::uint64_t bytes_max_;
    std::atomic<std::uint64_t> bytes_{0}; // mapped so far; read by every thread that makes requests

    mutable sync::Mutex mutex_; // guards what follows; a leaf
    struct Entry {
        std::unique_ptr<DmaRegion> region;
        bool admitted = false;
    };
    std::vector<Entry> entries_;
    std::map<std::uint64_t, std::uint64_t> free_; // start to end; neighbours are merged
};

} // namespace viaduct::driver
