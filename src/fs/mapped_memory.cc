// SPDX-License-Identifier: Apache-2.0
#include "fs/mapped_memory.h"

#include <sys/mman.h>

namespace viaduct::fs {

Result<MappedMemory> MappedMemory::make(const char* name, std::size_t bytes) {
    Fd memfd{::memfd_create(name, MFD_CLOEXEC)};
    if (!memfd) return fail(errno);
    if (::ftruncate(memfd.get(), static_cast<off_t>(bytes)) != 0) return fail(errno);
    void* const data =
        ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd.get(), 0);
    if (data == MAP_FAILED) return fail(errno);
    return MappedMemory{std::move(memfd), data, bytes};
}

MappedMemory::~MappedMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
}

} // namespace viaduct::fs
