// SPDX-License-Identifier: Apache-2.0
#include "rt/epoch.h"

#include "base/assert.h"
#include "base/sync.h"
#include "rt/close_fds.h"

#include <algorithm>
#include <mutex>
#include <unistd.h>

namespace viaduct::rt {
namespace {

constexpr std::uint64_t kOffline = ~0ULL;
// Their places in the tables are free already, so few: they are descriptors above the tables' bounds.
constexpr std::size_t kClosedTogetherMax = 64;

// The process's set of members.  `mutex` guards the list; the epoch itself is an atomic that only grows.
struct Domain {
    struct Orphan {
        std::uint64_t stamp;
        EpochMember::Free free;
        void* context;
        std::uint64_t argument;
    };
    alignas(64) std::atomic<std::uint64_t> epoch{1};
    std::mutex mutex;
    std::vector<std::shared_ptr<EpochMember::Slot>> slots;
    std::vector<Orphan> orphans; // retired by members that have left
};

Domain& domain() {
    static Domain* const instance = new Domain; // never destroyed: threads may outlive main
    return *instance;
}

thread_local EpochMember* current_member = nullptr;

} // namespace

std::unique_ptr<EpochMember> EpochMember::join() {
    ASSERT(current_member == nullptr);
    std::unique_ptr<EpochMember> member{new EpochMember};
    member->slot_ = std::make_shared<Slot>();
    Domain& all = domain();
    const std::scoped_lock lock{all.mutex};
    member->slot_->seen.store(all.epoch.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
    all.slots.push_back(member->slot_);
    current_member = member.get();
    return member;
}

EpochMember::~EpochMember() {
    offline();
    collect();
    Domain& all = domain();
    const std::scoped_lock lock{all.mutex};
    for (std::size_t at = retired_first_; at < retired_.size(); ++at)
        all.orphans.push_back(
            {retired_[at].stamp, retired_[at].free, retired_[at].context, retired_[at].argument});
    std::erase(all.slots, slot_);
    if (current_member == this) current_member = nullptr;
}

EpochMember* EpochMember::current() noexcept {
    return current_member;
}

// Release: what this thread read through borrowed references is read before others see that it has passed.
// The acquire load of the epoch makes every unlinking visible that happened before that epoch began.
void EpochMember::quiescent() noexcept {
    const std::uint64_t now = domain().epoch.load(std::memory_order_acquire);
    if (slot_->seen.load(std::memory_order_relaxed) != now) slot_->seen.store(now, std::memory_order_release);
}

void EpochMember::offline() noexcept {
    slot_->seen.store(kOffline, std::memory_order_release);
}

// seq_cst with the loads in collect(): either the collector sees this member online, or this member sees what
// the collector has unlinked.
void EpochMember::online() noexcept {
    slot_->seen.exchange(domain().epoch.load(std::memory_order_seq_cst), std::memory_order_seq_cst);
}

void EpochMember::retire(Free free, void* context, std::uint64_t argument) {
    const std::uint64_t stamp = domain().epoch.fetch_add(1, std::memory_order_seq_cst) + 1;
    retired_.push_back({stamp, free, context, argument});
}

void EpochMember::close(int fd) {
    if (current_member != nullptr && current_member->collecting_)
        current_member->closing_.push_back(fd);
    else
        ::close(fd);
}

std::size_t EpochMember::collect() {
    Domain& all = domain();
    if (retired_first_ == retired_.size()) return 0;
    std::uint64_t passed = kOffline;
    std::vector<Domain::Orphan> adopted;
    {
        const std::scoped_lock lock{all.mutex};
        for (const auto& slot : all.slots)
            passed = std::min(passed, slot->seen.load(std::memory_order_seq_cst));
        adopted.swap(all.orphans);
    }
    for (const auto& orphan : adopted)
        retired_.push_back({orphan.stamp, orphan.free, orphan.context, orphan.argument});
    collecting_ = true;
    while (retired_first_ < retired_.size() && retired_[retired_first_].stamp <= passed) {
        const Retired ready = retired_[retired_first_++];
        ready.free(ready.context, ready.argument);
        if (closing_.size() >= kClosedTogetherMax) {
            close_fds(closing_);
            closing_.clear();
        }
    }
    collecting_ = false;
    close_fds(closing_);
    closing_.clear();
    if (retired_first_ == retired_.size()) {
        retired_.clear();
        retired_first_ = 0;
    } else if (retired_first_ >= 4096) {
        retired_.erase(retired_.begin(), retired_.begin() + static_cast<std::ptrdiff_t>(retired_first_));
        retired_first_ = 0;
    }
    return retired_.size() - retired_first_;
}

} // namespace viaduct::rt
