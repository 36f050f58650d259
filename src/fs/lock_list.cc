// SPDX-License-Identifier: Apache-2.0
#include "fs/lock_list.h"

#include <algorithm>

namespace viaduct::fs {
namespace {

bool touches(const LockRange& one, const LockRange& other) noexcept {
    return one.overlaps(other) || one.last + 1 == other.first || other.last + 1 == one.first;
}

} // namespace

const LockList::Held* LockList::conflict(const LockOwner& owner, LockType type,
                                         const LockRange& range) const noexcept {
    const auto found = std::ranges::find_if(held_, [&](const Held& held) {
        return held.owner != owner && held.range.overlaps(range) && excludes(held.type, type);
    });
    return found == held_.end() ? nullptr : &*found;
}

void LockList::set(const Held& wanted) {
    Held made = wanted;
    std::vector<Held> pieces;
    std::erase_if(held_, [&](const Held& held) {
        if (held.owner != wanted.owner) return false;
        if (held.type == wanted.type && touches(held.range, wanted.range)) {
            made.range.first = std::min(made.range.first, held.range.first);
            made.range.last = std::max(made.range.last, held.range.last);
            return true;
        }
        if (!held.range.overlaps(wanted.range)) return false;
        if (held.range.first < wanted.range.first) {
            pieces.push_back(held);
            pieces.back().range.last = wanted.range.first - 1;
        }
        if (held.range.last > wanted.range.last) {
            pieces.push_back(held);
            pieces.back().range.first = wanted.range.last + 1;
        }
        return true;
    });
    if (made.type != LockType::none) pieces.push_back(made);
    held_.insert(held_.end(), pieces.begin(), pieces.end());
    std::ranges::stable_sort(held_, {}, [](const Held& held) { return held.range.first; });
}

std::size_t LockList::count_of(const LockOwner& owner) const noexcept {
    return static_cast<std::size_t>(
        std::ranges::count_if(held_, [&](const Held& held) { return held.owner == owner; }));
}

} // namespace viaduct::fs
