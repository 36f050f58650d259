// SPDX-License-Identifier: Apache-2.0
//
// Zeroed memory mapped from a memfd, touched lazily: what tables of plain records live in.
//
// Nothing in it may be a pointer, so that another process that holds the memfd can make sense of it.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <cstddef>

namespace viaduct::fs {

class MappedMemory {
public:
    // `name` shows in /proc/PID/maps.
    static Result<MappedMemory> make(const char* name, std::size_t bytes);
    MappedMemory(MappedMemory&& other) noexcept
        : memfd_(std::move(other.memfd_)), data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
    MappedMemory& operator=(MappedMemory&&) = delete;
    ~MappedMemory();

    void* data() const noexcept { return data_; }
    FdRef memfd() const noexcept { return memfd_; }

private:
    MappedMemory(Fd memfd, void* data, std::size_t bytes) noexcept
        : memfd_(std::move(memfd)), data_(data), bytes_(bytes) {}
    Fd memfd_;
    void* data_;
    std::size_t bytes_;
};

} // namespace viaduct::fs
