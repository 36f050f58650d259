// SPDX-License-Identifier: Apache-2.0
//
// A view of guest memory: regions that are mapped into this process, looked up by guest-physical address or
// by the front end's own user address (vring addresses of vhost-user).
//
// Immutable once built.  Who maps and unmaps the memory is not decided here: `vhost` owns mappings.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <sys/uio.h>
#include <vector>

namespace viaduct::virtio {

enum class GuestAddress : std::uint64_t {};

struct MemoryRegion {
    GuestAddress guest_address{};
    std::uint64_t user_address = 0; // of the same bytes in the front end's address space
    std::uint64_t bytes = 0;
    std::byte* host = nullptr;
};

class GuestMemory {
public:
    GuestMemory() = default;
    // EINVAL: a region is empty, wraps the address space, or overlaps another in guest-physical addresses.
    static Result<GuestMemory> make(std::vector<MemoryRegion> regions);

    // The host address of [address, address + bytes) when one region holds all of it, else nullptr.
    std::byte* at(GuestAddress address, std::uint64_t bytes) const noexcept {
        if (regions_.size() > kRegionsLinearMax) [[unlikely]]
            return at_sorted(address, bytes);
        for (const MemoryRegion& region : regions_) {
            if (contains(region, address)) return at_in(region, address, bytes);
        }
        return nullptr;
    }
    std::byte* at_user(std::uint64_t user_address, std::uint64_t bytes) const noexcept;
    // Appends the host segments of a guest range, which may run across regions that touch.
    // EFAULT: some byte is in no region (`to` may have grown).
    Status append_segments(GuestAddress address, std::uint64_t bytes, std::vector<iovec>& to) const;

    const std::vector<MemoryRegion>& regions() const noexcept { return regions_; }

private:
    // A guest has two or three regions, and a scan of those costs less than the branches of a binary search;
    // memory hot-plug makes them many.
    static constexpr std::size_t kRegionsLinearMax = 8;

    // An address below the region wraps to an offset beyond its end.
    static std::uint64_t offset_in(const MemoryRegion& region, GuestAddress address) noexcept {
        return static_cast<std::uint64_t>(address) - static_cast<std::uint64_t>(region.guest_address);
    }
    static bool contains(const MemoryRegion& region, GuestAddress address) noexcept {
        return offset_in(region, address) < region.bytes;
    }
    static std::byte* at_in(const MemoryRegion& region, GuestAddress address, std::uint64_t bytes) noexcept {
        const std::uint64_t offset = offset_in(region, address);
        return bytes <= region.bytes - offset ? region.host + offset : nullptr;
    }
    const MemoryRegion* region_of(GuestAddress address) const noexcept;
    std::byte* at_sorted(GuestAddress address, std::uint64_t bytes) const noexcept;

    std::vector<MemoryRegion> regions_; // sorted by guest address
};

} // namespace viaduct::virtio
