// SPDX-License-Identifier: Apache-2.0
//
// A set of CPU ids, as large as its highest member needs, and the two ways Linux writes one.
#pragma once

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::topology {

using CpuId = std::uint32_t;

// Linux is built for at most 8192 CPUs (x86 MAXSMP).  A higher id is a slip of the pen, and refusing it keeps
// "0-4000000000" from costing memory.
constexpr CpuId kCpuIdMax = 8191;

class CpuSet {
public:
    class Iterator;

    CpuSet() = default;
    CpuSet(std::initializer_list<CpuId> cpus);
    // `first` to `last`, both included.
    static CpuSet range(CpuId first, CpuId last);
    // "0-3,8" and "0, 1, 2" alike; empty text is the empty set.
    // EINVAL: not a list.  ERANGE: a CPU above kCpuIdMax.
    static Result<CpuSet> parse(std::string_view text);

    void add(CpuId cpu);
    void remove(CpuId cpu) noexcept;
    bool contains(CpuId cpu) const noexcept;
    std::size_t count() const noexcept;
    bool empty() const noexcept { return words_.empty(); }
    // The lowest member that is not below `from`.
    std::optional<CpuId> next(CpuId from) const noexcept;
    std::optional<CpuId> first() const noexcept { return next(0); }
    std::optional<CpuId> last() const noexcept;

    CpuSet& operator|=(const CpuSet& other);
    CpuSet& operator&=(const CpuSet& other) noexcept;
    CpuSet& operator-=(const CpuSet& other) noexcept;
    friend CpuSet operator|(CpuSet a, const CpuSet& b) { return a |= b; }
    friend CpuSet operator&(CpuSet a, const CpuSet& b) { return a &= b; }
    friend CpuSet operator-(CpuSet a, const CpuSet& b) { return a -= b; }
    friend bool operator==(const CpuSet&, const CpuSet&) = default;

    // In ascending order.
    Iterator begin() const noexcept;
    std::default_sentinel_t end() const noexcept { return {}; }

    // "0-3,8", as /sys/devices/system/cpu writes it.
    std::string list_text() const;
    // "0, 1, 2, 3, 8", as /sys/fs/virtiofs/*/mqs/*/cpu_list writes it.  Linux cuts that file at a page; we do
    // not.
    std::string sysfs_text() const;

private:
    // The last word is never zero, so equal sets have equal words.
    void trim() noexcept;
    std::vector<std::uint64_t> words_;
};

class CpuSet::Iterator {
public:
    using value_type = CpuId;
    using difference_type = std::ptrdiff_t;

    Iterator() = default;
    Iterator(const CpuSet& set, std::optional<CpuId> cpu) noexcept : set_(&set), cpu_(cpu) {}
    CpuId operator*() const noexcept { return *cpu_; }
    Iterator& operator++() noexcept {
        cpu_ = set_->next(*cpu_ + 1);
        return *this;
    }
    Iterator operator++(int) noexcept {
        Iterator old = *this;
        ++*this;
        return old;
    }
    friend bool operator==(const Iterator& a, const Iterator& b) noexcept { return a.cpu_ == b.cpu_; }
    friend bool operator==(const Iterator& a, std::default_sentinel_t) noexcept { return !a.cpu_; }

private:
    const CpuSet* set_ = nullptr;
    std::optional<CpuId> cpu_;
};

inline CpuSet::Iterator CpuSet::begin() const noexcept {
    return {*this, first()};
}

} // namespace viaduct::topology
