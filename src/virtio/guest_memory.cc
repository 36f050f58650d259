// SPDX-License-Identifier: Apache-2.0
#include "virtio/guest_memory.h"

#include <algorithm>
#include <limits>

namespace viaduct::virtio {
namespace {

std::uint64_t start_of(const MemoryRegion& region) {
    return static_cast<std::uint64_t>(region.guest_address);
}

bool wraps(std::uint64_t start, std::uint64_t bytes) {
    return bytes - 1 > std::numeric_limits<std::uint64_t>::max() - start;
}

} // namespace

Result<GuestMemory> GuestMemory::make(std::vector<MemoryRegion> regions) {
    for (const MemoryRegion& region : regions) {
        if (region.bytes == 0) return fail(EINVAL);
        if (region.host == nullptr) return fail(EINVAL);
        if (wraps(start_of(region), region.bytes)) return fail(EINVAL);
        if (wraps(region.user_address, region.bytes)) return fail(EINVAL);
    }
    std::ranges::sort(regions, {}, start_of);
    for (std::size_t index = 1; index < regions.size(); ++index) {
        const MemoryRegion& before = regions[index - 1];
        if (start_of(regions[index]) - start_of(before) < before.bytes) return fail(EINVAL);
    }
    GuestMemory memory;
    memory.regions_ = std::move(regions);
    return memory;
}

const MemoryRegion* GuestMemory::region_of(GuestAddress address) const noexcept {
    const auto after = std::ranges::upper_bound(regions_, static_cast<std::uint64_t>(address), {}, start_of);
    if (after == regions_.begin()) return nullptr;
    const MemoryRegion& region = *std::prev(after);
    return contains(region, address) ? &region : nullptr;
}

std::byte* GuestMemory::at_sorted(GuestAddress address, std::uint64_t bytes) const noexcept {
    const MemoryRegion* const region = region_of(address);
    return region != nullptr ? at_in(*region, address, bytes) : nullptr;
}

std::byte* GuestMemory::at_user(std::uint64_t user_address, std::uint64_t bytes) const noexcept {
    for (const MemoryRegion& region : regions_) {
        const std::uint64_t offset = user_address - region.user_address;
        if (offset >= region.bytes) continue;
        return bytes <= region.bytes - offset ? region.host + offset : nullptr;
    }
    return nullptr;
}

Status GuestMemory::append_segments(GuestAddress address, std::uint64_t bytes, std::vector<iovec>& to) const {
    while (bytes > 0) {
        const MemoryRegion* const region = region_of(address);
        if (region == nullptr) return fail(EFAULT);
        const std::uint64_t offset = offset_in(*region, address);
        const std::uint64_t part = std::min(bytes, region->bytes - offset);
        to.push_back({.iov_base = region->host + offset, .iov_len = part});
        bytes -= part;
        // Past the last address comes 0, where another region may lie: a range does not go on there.
        if (bytes > 0 && wraps(static_cast<std::uint64_t>(address), part + 1)) return fail(EFAULT);
        address = static_cast<GuestAddress>(static_cast<std::uint64_t>(address) + part);
    }
    return {};
}

} // namespace viaduct::virtio
