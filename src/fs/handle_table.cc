// SPDX-License-Identifier: Apache-2.0
#include "fs/handle_table.h"

namespace viaduct::fs {

Result<std::unique_ptr<HandleTable>> HandleTable::make(std::uint32_t handles_max,
                                                       std::shared_ptr<FdCloser> closer) {
    ASSERT(handles_max < (1U << 30));
    TRY(RecordPool<Handle>* const pool,
        RecordPool<Handle>::make("viaduct-handles", handles_max, std::move(closer)));
    return std::unique_ptr<HandleTable>{new HandleTable{pool}};
}

HandleTable::~HandleTable() {
    clear();
    pool_->drop();
}

Result<HandleId> HandleTable::insert(Fd fd, const Facts& facts) {
    TRY(const std::uint32_t index, pool_->allocate());
    Handle& handle = pool_->at(index);
    handle.fd = fd.release();
    handle.mount_id = facts.mount_id;
    handle.node = facts.node;
    handle.device = facts.device;
    handle.mount = facts.mount;
    handle.flags = facts.flags;
    handle.busy.store(0, std::memory_order_relaxed);
    handle.nonblocking.store(facts.nonblocking ? 1 : 0, std::memory_order_relaxed);
    const std::uint64_t generation = pool_->publish(index);
    return HandleId{generation << 32 | index};
}

Status HandleTable::remove(HandleId id) {
    const auto value = static_cast<std::uint64_t>(id);
    TRY(Handle* const handle, find(id));
    if (!pool_->withdraw(pool_->index_of(*handle), static_cast<std::uint32_t>(value >> 32)))
        return fail(EBADF);
    return {};
}

void HandleTable::clear() {
    const std::uint32_t end = pool_->high_water();
    for (std::uint32_t index = 1; index < end; ++index) {
        const std::uint32_t generation = pool_->at(index).head.generation.load(std::memory_order_acquire);
        if (generation != 0) pool_->withdraw(index, generation);
    }
}

} // namespace viaduct::fs
