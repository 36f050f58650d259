// SPDX-License-Identifier: Apache-2.0
//
// The front end's memory, mapped: one mapping per region and the view that queues read.
//
// Immutable.  A changed table is a new object that shares the mappings which stay (their shared_ptr owners
// are the tables, and requests that still wait on an old table).
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "virtio/guest_memory.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace viaduct::vhost {

// One memory region as the front end describes it (vhost-user, "Memory region description").
struct RegionDescription {
    std::uint64_t guest_address = 0;
    std::uint64_t bytes = 0;
    std::uint64_t user_address = 0;
    std::uint64_t mmap_offset = 0;
    friend bool operator==(const RegionDescription&, const RegionDescription&) = default;
};

// A region's bytes in this process.  Guarded against a front end that shrinks the file under us: SIGBUS puts
// zero pages there and sets lost().
class Mapping {
public:
    // EINVAL: a size or offset that cannot be; otherwise mmap's error.
    static Result<std::shared_ptr<Mapping>> map(const RegionDescription& region, Fd file);
    ~Mapping();

    const RegionDescription& region() const noexcept { return region_; }
    std::byte* host() const noexcept { return host_; }
    // Same bytes of the same file?  Lets a new table keep the mapping.
    bool same_file(FdRef other) const noexcept;
    // The file shrank under us.
    bool lost() const noexcept { return lost_->load(std::memory_order_acquire); }
    // Puts anonymous memory in place of the file: late writes miss the front end's memory.
    Status detach() noexcept;

private:
    Mapping() = default;
    RegionDescription region_;
    Fd file_;
    void* base_ = nullptr; // what was mapped, mmap_offset included
    std::size_t mapped_bytes_ = 0;
    std::byte* host_ = nullptr;
    std::atomic<bool>* lost_ = nullptr; // in the SIGBUS guard's table
};

class MemoryTable {
public:
    MemoryTable() = default;
    // EINVAL: regions overlap.
    static Result<std::shared_ptr<const MemoryTable>> make(std::vector<std::shared_ptr<Mapping>> mappings);

    const virtio::GuestMemory& view() const noexcept { return view_; }
    const std::vector<std::shared_ptr<Mapping>>& mappings() const noexcept { return mappings_; }
    bool lost() const noexcept;
    // Detaches every mapping; see Mapping::detach.
    void detach() const noexcept;

private:
    std::vector<std::shared_ptr<Mapping>> mappings_;
    virtio::GuestMemory view_;
};

// Installs the SIGBUS handler of this process; idempotent.  `event_fd`: written (one) each time a mapping is
// lost, -1 for none.
void install_bus_guard(int event_fd);

} // namespace viaduct::vhost
