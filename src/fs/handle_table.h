// SPDX-License-Identifier: Apache-2.0
//
// HandleTable: the files and directories one client has open.
//
// A handle costs 48 bytes and one descriptor.  Finding one writes nothing shared; opening and releasing take
// no lock.  A released handle's descriptor is closed when nobody uses it any more.
#pragma once

#include "base/fd.h"
#include "fs/record_pool.h"
#include "fs/types.h"

namespace viaduct::fs {

struct Handle {
    enum Flag : std::uint16_t {
        direct = 1U << 0, // O_DIRECT on the host
        append = 1U << 1, // opened with O_APPEND by the client; not set on the host
        directory = 1U << 2,
    };
    RecordHead head;
    // Set before the handle can be found, constant until it is free.
    std::uint64_t mount_id;
    int fd;
    std::uint32_t node; // index in the node table
    std::uint32_t device;
    std::uint16_t mount; // the back end's own number for the mount
    std::uint16_t flags;
    sync::Shared<std::uint32_t> busy;        // directories: someone is reading it
    sync::Shared<std::uint32_t> nonblocking; // the descriptor has O_NONBLOCK

    bool has(Flag flag) const noexcept { return (flags & flag) != 0; }
};
static_assert(sizeof(Handle) == 48);

using HandlePin = RecordPin<Handle>;

class HandleTable {
public:
    static Result<std::unique_ptr<HandleTable>> make(std::uint32_t handles_max,
                                                     std::shared_ptr<FdCloser> closer);
    ~HandleTable();

    struct Facts {
        std::uint64_t mount_id = 0;
        std::uint32_t node = 0;
        std::uint32_t device = 0;
        std::uint16_t mount = 0;
        std::uint16_t flags = 0;
        bool nonblocking = false;
    };
    // ENFILE: the client has as many files open as it may.
    Result<HandleId> insert(Fd fd, const Facts& facts);
    // Valid until the caller's next quiescent point.  EBADF: no such handle.
    Result<Handle*> find(HandleId id) noexcept {
        const auto value = static_cast<std::uint64_t>(id);
        Handle* const handle =
            pool_->find(static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32));
        if (handle == nullptr) return fail(EBADF);
        return handle;
    }
    HandlePin pin(Handle& handle) noexcept { return HandlePin{*pool_, handle}; }
    // EBADF: no such handle.
    Status remove(HandleId id);
    void clear();

    // See RecordPool.
    bool room_to_come() const noexcept { return pool_->room_to_come(); }

    // Handles that wait for their epoch included.
    std::uint32_t count() const noexcept { return pool_->in_use(); }
    std::uint32_t handles_max() const noexcept { return pool_->records_max(); }

private:
    explicit HandleTable(RecordPool<Handle>* pool) noexcept : pool_(pool) {}
    RecordPool<Handle>* const pool_;
};

} // namespace viaduct::fs
