// SPDX-License-Identifier: Apache-2.0
//
// RecordPool: records in mapped memory, each named by its index and a generation, each owning a descriptor.
//
// Any worker may call anything here; callers are members of the epoch set (rt/epoch.h), or the only thread.
//   find()      reads only.  What it gives stays valid until the caller's next quiescent point.
//   pin()       keeps record and descriptor for longer: across awaits, and for helpers.
//   withdraw()  ends the record's use; its descriptor is closed and its place used again once every member
//   has
//               passed a quiescent point and the last pin is gone.
#pragma once

#include "base/assert.h"
#include "base/result.h"
#include "base/sync.h"
#include "fs/mapped_memory.h"
#include "rt/epoch.h"

#include <algorithm>
#include <cstdint>
#include <memory>

namespace viaduct::fs {

// Closes descriptors that tables are done with.  Called on workers; a close that may block goes elsewhere.
// Shared by the tables and by whoever made it, as a last close may come after the tables' own end.
class FdCloser {
public:
    virtual ~FdCloser() = default;
    virtual void close(int fd, std::uint16_t mount) = 0;
    // Descriptors that it has yet to close.  They count against the bound of each table that asks.
    virtual std::uint32_t closing() const noexcept { return 0; }
};

// First member of each record.
struct RecordHead {
    sync::Shared<std::uint32_t> generation; // 0: not in use
    std::uint32_t generation_last;    // of the latest use; whoever holds the place alone reads and writes it
    sync::Shared<std::uint32_t> pins; // kRetired | number of pins
    sync::Shared<std::uint32_t> next; // index of the next free place, or the owner's own list
};

// Record: standard layout, valid when all zero, with `RecordHead head`, `int fd` and `std::uint16_t mount`.
template <class Record> class RecordPool {
public:
    static constexpr std::uint32_t kNone = 0; // no record has index 0

    // Room for `records_max` records.  The maker holds the one reference.
    static Result<RecordPool*> make(const char* name, std::uint32_t records_max,
                                    std::shared_ptr<FdCloser> closer) {
        const std::size_t places = std::size_t{records_max} + 1;
        TRY(MappedMemory memory, MappedMemory::make(name, places * sizeof(Record)));
        return new RecordPool{std::move(memory), records_max, std::move(closer)};
    }
    // The maker is done.  Places that wait for their epoch keep the pool until they are free.
    void drop() {
        if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
    }

    Record& at(std::uint32_t index) noexcept {
        ASSERT(index <= records_max_);
        return records_[index];
    }
    std::uint32_t index_of(const Record& record) const noexcept {
        return static_cast<std::uint32_t>(&record - records_);
    }
    // nullptr: no such record now.
    Record* find(std::uint32_t index, std::uint32_t generation) noexcept {
        if (index > records_max_ || generation == 0) return nullptr;
        Record& record = records_[index];
        // Acquire: pairs with publish(); who sees the generation sees the fields.
        if (record.head.generation.load(std::memory_order_acquire) != generation) return nullptr;
        return &record;
    }

    // Hardly a place is free, and some of those in use only wait for their epoch: who needs one had better
    // wait for that.  Not for records that are pinned, as what pins them may hang.
    bool room_to_come() const noexcept {
        const std::uint32_t spare = std::min(kPlacesSpare, records_max_ / 8);
        return in_use() + spare >= records_max_ && waiting_for_epoch() > 0;
    }

    // A place for a new record, to be filled and published, or given back.  ENFILE: all are in use.
    Result<std::uint32_t> allocate() {
        if (const std::uint32_t closing = closer_->closing(); closing != 0) [[unlikely]]
            if (in_use() + closing >= records_max_) return fail(ENFILE);
        std::uint32_t index = take_free();
        if (index == kNone) index = take_fresh();
        if (index == kNone) {
            // Places may be waiting for their epoch while this worker has no time to rest.
            if (rt::EpochMember* const member = rt::EpochMember::current()) member->collect();
            index = take_free();
        }
        if (index == kNone) return fail(ENFILE);
        in_use_.fetch_add(1, std::memory_order_relaxed);
        return index;
    }
    // The record can be found from now on; its generation.
    std::uint32_t publish(std::uint32_t index) noexcept {
        RecordHead& head = records_[index].head;
        if (++head.generation_last == 0) head.generation_last = 1;
        head.generation.store(head.generation_last, std::memory_order_release);
        return head.generation_last;
    }
    void give_back(std::uint32_t index) noexcept { put_free(index); }

    // Cannot be found any more, and is freed when nobody can hold it.  false: someone else was first.
    bool withdraw(std::uint32_t index, std::uint32_t generation) {
        RecordHead& head = records_[index].head;
        if (!head.generation.compare_exchange_strong(generation, 0, std::memory_order_acq_rel,
                                                     std::memory_order_relaxed))
            return false;
        references_.fetch_add(1, std::memory_order_relaxed);
        if (rt::EpochMember* const member = rt::EpochMember::current())
            member->retire(&passed, this, index);
        else
            passed(this, index);
        return true;
    }

    void pin(Record& record) noexcept {
        // Relaxed: the record is held by the epoch or by another pin already.
        [[maybe_unused]] const auto before = record.head.pins.fetch_add(1, std::memory_order_relaxed);
    }
    void unpin(Record& record) noexcept {
        if (record.head.pins.fetch_sub(1, std::memory_order_acq_rel) == (kRetired | 1))
            finish(index_of(record));
    }

    // Places in use, those that wait for their epoch included.
    std::uint32_t in_use() const noexcept { return in_use_.load(std::memory_order_relaxed); }
    // No index at or above this one was ever used.
    std::uint32_t high_water() const noexcept { return fresh_.load(std::memory_order_acquire); }
    std::uint32_t records_max() const noexcept { return records_max_; }

private:
    static constexpr std::uint32_t kRetired = 1U << 31;
    // As many calls may be under way that have found room and not yet taken it.
    static constexpr std::uint32_t kPlacesSpare = 64;

    // Each of them holds a reference, and so does the maker.
    std::uint32_t waiting_for_epoch() const noexcept {
        return references_.load(std::memory_order_relaxed) - 1;
    }

    RecordPool(MappedMemory memory, std::uint32_t records_max, std::shared_ptr<FdCloser> closer)
        : memory_(std::move(memory)), records_(static_cast<Record*>(memory_.data())),
          records_max_(records_max), closer_(std::move(closer)) {}
    ~RecordPool() = default;

    // Every member has been quiescent since withdraw(): only pins hold the record now, and no new ones come.
    static void passed(void* context, std::uint64_t index) {
        auto& pool = *static_cast<RecordPool*>(context);
        RecordHead& head = pool.records_[index].head;
        if (head.pins.fetch_add(kRetired, std::memory_order_acq_rel) == 0)
            pool.finish(static_cast<std::uint32_t>(index));
        pool.drop();
    }
    void finish(std::uint32_t index) {
        Record& record = records_[index];
        record.head.pins.store(0, std::memory_order_relaxed);
        if (const int fd = std::exchange(record.fd, -1); fd >= 0) closer_->close(fd, record.mount);
        put_free(index);
    }

    // Free places form a stack; the upper half of its head counts changes, so that a head seen earlier is not
    // mistaken for the present one.
    std::uint32_t take_free() noexcept {
        std::uint64_t head = free_.load(std::memory_order_acquire);
        while (true) {
            const auto index = static_cast<std::uint32_t>(head);
            if (index == kNone) return kNone;
            const std::uint64_t next = records_[index].head.next.load(std::memory_order_relaxed);
            const std::uint64_t wanted = ((head >> 32) + 1) << 32 | next;
            if (free_.compare_exchange_weak(head, wanted, std::memory_order_acquire,
                                            std::memory_order_acquire))
                return index;
        }
    }
    void put_free(std::uint32_t index) noexcept {
        in_use_.fetch_sub(1, std::memory_order_relaxed);
        std::uint64_t head = free_.load(std::memory_order_relaxed);
        std::uint64_t wanted = 0;
        do {
            records_[index].head.next.store(static_cast<std::uint32_t>(head), std::memory_order_relaxed);
            wanted = ((head >> 32) + 1) << 32 | index;
        } while (
            !free_.compare_exchange_weak(head, wanted, std::memory_order_acq_rel, std::memory_order_relaxed));
    }
    std::uint32_t take_fresh() noexcept {
        std::uint32_t index = fresh_.load(std::memory_order_relaxed);
        while (index <= records_max_)
            if (fresh_.compare_exchange_weak(index, index + 1, std::memory_order_acq_rel,
                                             std::memory_order_relaxed))
                return index;
        return kNone;
    }

    const MappedMemory memory_;
    Record* const records_;
    const std::uint32_t records_max_;
    const std::shared_ptr<FdCloser> closer_; // with the tables' owner, see FdCloser
    // Written by whoever makes or ends a record; away from what every request reads.
    alignas(64) sync::Shared<std::uint64_t> free_{0};
    sync::Shared<std::uint32_t> fresh_{1};
    sync::Shared<std::uint32_t> in_use_{0};
    sync::Shared<std::uint32_t> references_{1};
};

// Keeps a record and its descriptor: across awaits, and while a helper uses them.
template <class Record> class RecordPin {
public:
    RecordPin() noexcept = default;
    RecordPin(RecordPool<Record>& pool, Record& record) noexcept : pool_(&pool), record_(&record) {
        pool.pin(record);
    }
    RecordPin(RecordPin&& other) noexcept
        : pool_(other.pool_), record_(std::exchange(other.record_, nullptr)) {}
    RecordPin& operator=(RecordPin&&) = delete;
    ~RecordPin() {
        if (record_ != nullptr) pool_->unpin(*record_);
    }

    explicit operator bool() const noexcept { return record_ != nullptr; }
    Record& operator*() const noexcept { return *record_; }
    Record* operator->() const noexcept { return record_; }

private:
    RecordPool<Record>* pool_ = nullptr;
    Record* record_ = nullptr;
};

} // namespace viaduct::fs
