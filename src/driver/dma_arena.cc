// SPDX-License-Identifier: Apache-2.0
#include "driver/dma_arena.h"

#include "base/assert.h"

#include <bit>
#include <sys/mman.h>
#include <utility>

namespace viaduct::driver {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
// Pieces are handed out in lines, so that two requests share none.
constexpr std::uint64_t kLineBytes = 64;

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t unit) {
    return (value + unit - 1) / unit * unit;
}

} // namespace

DmaBuffer& DmaBuffer::operator=(DmaBuffer&& other) noexcept {
    if (this == &other) return *this;
    if (arena_ != nullptr) arena_->give_back(bytes_);
    arena_ = std::exchange(other.arena_, nullptr);
    bytes_ = std::exchange(other.bytes_, {});
    return *this;
}

DmaBuffer::~DmaBuffer() {
    if (arena_ != nullptr) arena_->give_back(bytes_);
}

Result<std::unique_ptr<DmaArena>> DmaArena::make(const Options& options) {
    const std::uint64_t bytes_max = round_up(options.bytes_max, kPageBytes);
    void* const base =
        ::mmap(nullptr, bytes_max, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return fail(errno);
    std::unique_ptr<DmaArena> arena{new DmaArena{static_cast<std::byte*>(base), bytes_max}};
    TRY(const DmaRegion* const first, arena->grow(options.bytes));
    arena->admit(*first);
    return arena;
}

DmaArena::~DmaArena() {
    ::munmap(base_, bytes_max_);
}

Result<const DmaRegion*> DmaArena::grow(std::uint64_t bytes) {
    bytes = round_up(bytes, kPageBytes);
    const sync::Lock lock{mutex_};
    const std::uint64_t offset = bytes_.load(std::memory_order_relaxed);
    if (bytes == 0) return fail(EINVAL);
    if (bytes > bytes_max_ - offset) return fail(ENOSPC);

    Fd file{::memfd_create("viaduct-dma", MFD_CLOEXEC)};
    if (!file) return fail(errno);
    if (::ftruncate(file.get(), static_cast<off_t>(bytes)) < 0) return fail(errno);
    void* const host =
        ::mmap(base_ + offset, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file.get(), 0);
    if (host == MAP_FAILED) return fail(errno);

    entries_.push_back({.region = std::make_unique<DmaRegion>(address_of(base_ + offset), base_ + offset,
                                                              bytes, std::move(file))});
    bytes_.store(offset + bytes, std::memory_order_release);
    return entries_.back().region.get();
}

void DmaArena::admit(const DmaRegion& region) {
    const sync::Lock lock{mutex_};
    for (Entry& entry : entries_) {
        if (entry.region.get() != &region) continue;
        ASSERT(!entry.admitted);
        entry.admitted = true;
        add_free(extent_of(region));
    }
}

void DmaArena::retire(const DmaRegion& region) {
    const sync::Lock lock{mutex_};
    for (Entry& entry : entries_) {
        if (entry.region.get() != &region) continue;
        ASSERT(entry.admitted);
        entry.admitted = false;
        remove_free(extent_of(region));
    }
}

std::vector<const DmaRegion*> DmaArena::regions() const {
    const sync::Lock lock{mutex_};
    std::vector<const DmaRegion*> regions;
    for (const Entry& entry : entries_) {
        if (entry.admitted) regions.push_back(entry.region.get());
    }
    return regions;
}

DmaArena::Extent DmaArena::extent_of(const DmaRegion& region) const noexcept {
    const auto start = static_cast<std::uint64_t>(region.host - base_);
    return {.start = start, .end = start + region.bytes};
}

Result<DmaBuffer> DmaArena::allocate(std::size_t bytes, std::size_t alignment) {
    ASSERT(std::has_single_bit(alignment));
    ASSERT(alignment <= kPageBytes);
    const std::uint64_t length = round_up(std::max<std::uint64_t>(bytes, 1), kLineBytes);
    const sync::Lock lock{mutex_};
    for (const auto& [free_start, free_end] : free_) {
        const std::uint64_t start = round_up(free_start, std::max(alignment, kLineBytes));
        if (start >= free_end || free_end - start < length) continue;
        remove_free({.start = start, .end = start + length});
        return DmaBuffer{*this, {base_ + start, bytes}};
    }
    return fail(ENOMEM);
}

// Only the parts that lie in admitted regions are handed out again.
void DmaArena::give_back(std::span<std::byte> bytes) noexcept {
    const sync::Lock lock{mutex_};
    const auto start = static_cast<std::uint64_t>(bytes.data() - base_);
    const std::uint64_t end = start + round_up(std::max<std::uint64_t>(bytes.size(), 1), kLineBytes);
    for (const Entry& entry : entries_) {
        if (!entry.admitted) continue;
        const Extent region = extent_of(*entry.region);
        const Extent part{.start = std::max(start, region.start), .end = std::min(end, region.end)};
        if (part.start < part.end) add_free(part);
    }
}

void DmaArena::add_free(Extent extent) {
    const auto next = free_.lower_bound(extent.start);
    if (next != free_.end()) {
        ASSERT(extent.end <= next->first);
        if (extent.end == next->first) {
            extent.end = next->second;
            free_.erase(next);
        }
    }
    const auto after = free_.lower_bound(extent.start);
    if (after != free_.begin()) {
        const auto before = std::prev(after);
        ASSERT(before->second <= extent.start);
        if (before->second == extent.start) {
            before->second = extent.end;
            return;
        }
    }
    free_.emplace(extent.start, extent.end);
}

void DmaArena::remove_free(Extent extent) {
    auto piece = free_.upper_bound(extent.start);
    if (piece != free_.begin()) --piece;
    while (piece != free_.end() && piece->first < extent.end) {
        const Extent free{.start = piece->first, .end = piece->second};
        if (free.end <= extent.start) {
            ++piece;
            continue;
        }
        piece = free_.erase(piece);
        if (free.start < extent.start) free_.emplace(free.start, extent.start);
        if (free.end > extent.end) free_.emplace(extent.end, free.end);
    }
}

Result<virtio::GuestRange> DmaArena::range_of(const void* data, std::size_t bytes) const noexcept {
    const auto* const start = static_cast<const std::byte*>(data);
    // Acquire: pairs with grow(); a caller that saw the new region in regions() sees it here too.
    const std::uint64_t mapped_bytes = bytes_.load(std::memory_order_acquire);
    const auto offset = reinterpret_cast<std::uintptr_t>(start) - reinterpret_cast<std::uintptr_t>(base_);
    if (offset >= mapped_bytes) return fail(EFAULT);
    if (bytes > mapped_bytes - offset) return fail(EFAULT);
    if (bytes > UINT32_MAX) return fail(EFAULT);
    return virtio::GuestRange{.address = address_of(start), .bytes = static_cast<std::uint32_t>(bytes)};
}

virtio::GuestAddress DmaArena::address_of(const std::byte* data) const noexcept {
    return virtio::GuestAddress{kGuestStart + static_cast<std::uint64_t>(data - base_)};
}

} // namespace viaduct::driver
