// SPDX-License-Identifier: Apache-2.0
#include "vhost/memory_table.h"

#include "base/log.h"
#include "vhost/bus_guard.h"

#include <algorithm>
#include <limits>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace viaduct::vhost {
namespace {

constexpr std::uint64_t kGuestPageBytes = 4096;

bool wraps(std::uint64_t start, std::uint64_t bytes) {
    return bytes - 1 > std::numeric_limits<std::uint64_t>::max() - start;
}

// What can be checked without the file.  The three addresses agree within a page: a ring or a buffer that is
// aligned for the guest is then aligned for us, which atomics and direct I/O need.
bool sane(const RegionDescription& region) {
    if (region.bytes == 0) return false;
    if (wraps(region.guest_address, region.bytes)) return false;
    if (wraps(region.user_address, region.bytes)) return false;
    if (wraps(region.mmap_offset, region.bytes)) return false;
    const std::uint64_t within = region.mmap_offset % kGuestPageBytes;
    return region.guest_address % kGuestPageBytes == within &&
           region.user_address % kGuestPageBytes == within;
}

// The unit in which parts of the file can be mapped.
Result<std::uint64_t> page_bytes_of(FdRef file) {
    struct statfs info{};
    if (::fstatfs(file.get(), &info) != 0) return fail(errno);
    if (info.f_type == HUGETLBFS_MAGIC) return static_cast<std::uint64_t>(info.f_bsize);
    return static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A region that goes past the end of its file would fault at the first touch.
Status inside_file(FdRef file, const RegionDescription& region) {
    struct stat info{};
    if (::fstat(file.get(), &info) != 0) return fail(errno);
    if (!S_ISREG(info.st_mode)) return {}; // devices say nothing of their size
    const auto file_bytes = static_cast<std::uint64_t>(info.st_size);
    if (region.mmap_offset > file_bytes || region.bytes > file_bytes - region.mmap_offset)
        return fail(EINVAL);
    return {};
}

} // namespace

Result<std::shared_ptr<Mapping>> Mapping::map(const RegionDescription& region, Fd file) {
    if (!sane(region)) return fail(EINVAL);
    TRY_STATUS(inside_file(file, region));
    TRY(const std::uint64_t page_bytes, page_bytes_of(file));
    const std::uint64_t offset_in_page = region.mmap_offset % page_bytes;
    if (region.bytes > std::numeric_limits<std::uint64_t>::max() - offset_in_page - page_bytes)
        return fail(EINVAL);
    const std::uint64_t mapped_bytes =
        (region.bytes + offset_in_page + page_bytes - 1) / page_bytes * page_bytes;

    // NORESERVE: the front end decides about huge page reservations.
    void* const base = ::mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                              file.get(), static_cast<off_t>(region.mmap_offset - offset_in_page));
    if (base == MAP_FAILED) return fail(errno);
    const auto lost = BusGuard::guard(base, mapped_bytes, page_bytes);
    if (!lost) {
        ::munmap(base, mapped_bytes);
        return fail(lost.error());
    }
    ::madvise(base, mapped_bytes, MADV_DONTDUMP); // a guest's memory does not belong in our core files

    std::shared_ptr<Mapping> mapping{new Mapping};
    mapping->region_ = region;
    mapping->file_ = std::move(file);
    mapping->base_ = base;
    mapping->mapped_bytes_ = mapped_bytes;
    mapping->host_ = static_cast<std::byte*>(base) + offset_in_page;
    mapping->lost_ = *lost;
    return mapping;
}

Mapping::~Mapping() {
    if (base_ == nullptr) return;
    BusGuard::release(lost_);
    ::munmap(base_, mapped_bytes_);
}

bool Mapping::same_file(FdRef other) const noexcept {
    struct stat ours{};
    struct stat theirs{};
    if (::fstat(file_.get(), &ours) != 0) return false;
    if (::fstat(other.get(), &theirs) != 0) return false;
    return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

Status Mapping::detach() noexcept {
    void* const replaced = ::mmap(base_, mapped_bytes_, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    if (replaced == MAP_FAILED) return fail(errno);
    return {};
}

Result<std::shared_ptr<const MemoryTable>> MemoryTable::make(std::vector<std::shared_ptr<Mapping>> mappings) {
    std::vector<virtio::MemoryRegion> regions;
    regions.reserve(mappings.size());
    for (const auto& mapping : mappings) {
        const RegionDescription& region = mapping->region();
        regions.push_back({.guest_address = virtio::GuestAddress{region.guest_address},
                           .user_address = region.user_address,
                           .bytes = region.bytes,
                           .host = mapping->host()});
    }
    auto table = std::make_shared<MemoryTable>();
    TRY(table->view_, virtio::GuestMemory::make(std::move(regions)));
    table->mappings_ = std::move(mappings);
    return table;
}

bool MemoryTable::lost() const noexcept {
    return std::ranges::any_of(mappings_, [](const auto& mapping) { return mapping->lost(); });
}

void MemoryTable::detach() const noexcept {
    for (const auto& mapping : mappings_) {
        if (const auto detached = mapping->detach(); !detached)
            log::error("guest memory could not be detached: {}", detached.error());
    }
}

} // namespace viaduct::vhost
