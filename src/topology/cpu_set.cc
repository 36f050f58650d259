// SPDX-License-Identifier: Apache-2.0
#include "topology/cpu_set.h"

#include "base/assert.h"

#include <algorithm>
#include <bit>
#include <charconv>

namespace viaduct::topology {
namespace {

constexpr CpuId kWordBits = 64;

constexpr std::uint64_t bit_of(CpuId cpu) {
    return std::uint64_t{1} << (cpu % kWordBits);
}

std::string_view stripped(std::string_view text) {
    constexpr std::string_view kSpace = " \t\n";
    const std::size_t begin = text.find_first_not_of(kSpace);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

Result<CpuId> cpu_of(std::string_view text) {
    CpuId cpu = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), cpu);
    if (error == std::errc::result_out_of_range) return fail(ERANGE);
    if (error != std::errc{}) return fail(EINVAL);
    if (end != text.data() + text.size()) return fail(EINVAL);
    if (cpu > kCpuIdMax) return fail(ERANGE);
    return cpu;
}

} // namespace

CpuSet::CpuSet(std::initializer_list<CpuId> cpus) {
    for (const CpuId cpu : cpus) add(cpu);
}

CpuSet CpuSet::range(CpuId first, CpuId last) {
    CpuSet set;
    for (CpuId cpu = first; cpu <= last; ++cpu) set.add(cpu);
    return set;
}

Result<CpuSet> CpuSet::parse(std::string_view text) {
    CpuSet set;
    text = stripped(text);
    if (text.empty()) return set;
    for (;;) {
        const std::size_t comma = text.find(',');
        const std::string_view word = stripped(text.substr(0, comma));
        const std::size_t dash = word.find('-');
        TRY(const CpuId first, cpu_of(word.substr(0, dash)));
        CpuId last = first;
        if (dash != std::string_view::npos) {
            TRY(last, cpu_of(word.substr(dash + 1)));
        }
        if (last < first) return fail(EINVAL);
        set |= range(first, last);
        if (comma == std::string_view::npos) return set;
        text.remove_prefix(comma + 1);
    }
}

void CpuSet::add(CpuId cpu) {
    ASSERT(cpu <= kCpuIdMax);
    const std::size_t word = cpu / kWordBits;
    if (word >= words_.size()) words_.resize(word + 1);
    words_[word] |= bit_of(cpu);
}

void CpuSet::remove(CpuId cpu) noexcept {
    const std::size_t word = cpu / kWordBits;
    if (word >= words_.size()) return;
    words_[word] &= ~bit_of(cpu);
    trim();
}

bool CpuSet::contains(CpuId cpu) const noexcept {
    const std::size_t word = cpu / kWordBits;
    return word < words_.size() && (words_[word] & bit_of(cpu)) != 0;
}

std::size_t CpuSet::count() const noexcept {
    std::size_t count = 0;
    for (const std::uint64_t word : words_) count += static_cast<std::size_t>(std::popcount(word));
    return count;
}

std::optional<CpuId> CpuSet::next(CpuId from) const noexcept {
    std::size_t word = from / kWordBits;
    if (word >= words_.size()) return std::nullopt;
    std::uint64_t bits = words_[word] & ~(bit_of(from) - 1);
    while (bits == 0) {
        if (++word == words_.size()) return std::nullopt;
        bits = words_[word];
    }
    return static_cast<CpuId>(word) * kWordBits + static_cast<CpuId>(std::countr_zero(bits));
}

std::optional<CpuId> CpuSet::last() const noexcept {
    if (words_.empty()) return std::nullopt;
    return static_cast<CpuId>(words_.size()) * kWordBits - 1 -
           static_cast<CpuId>(std::countl_zero(words_.back()));
}

CpuSet& CpuSet::operator|=(const CpuSet& other) {
    words_.resize(std::max(words_.size(), other.words_.size()));
    for (std::size_t word = 0; word < other.words_.size(); ++word) words_[word] |= other.words_[word];
    return *this;
}

CpuSet& CpuSet::operator&=(const CpuSet& other) noexcept {
    if (words_.size() > other.words_.size()) words_.resize(other.words_.size());
    for (std::size_t word = 0; word < words_.size(); ++word) words_[word] &= other.words_[word];
    trim();
    return *this;
}

CpuSet& CpuSet::operator-=(const CpuSet& other) noexcept {
    const std::size_t common = std::min(words_.size(), other.words_.size());
    for (std::size_t word = 0; word < common; ++word) words_[word] &= ~other.words_[word];
    trim();
    return *this;
}

std::string CpuSet::list_text() const {
    std::string text;
    for (auto cpu = first(); cpu;) {
        CpuId last = *cpu;
        while (contains(last + 1)) ++last;
        if (!text.empty()) text += ',';
        text += std::to_string(*cpu);
        if (last > *cpu) text += '-' + std::to_string(last);
        cpu = next(last + 1);
    }
    return text;
}

std::string CpuSet::sysfs_text() const {
    std::string text;
    for (const CpuId cpu : *this) {
        if (!text.empty()) text += ", ";
        text += std::to_string(cpu);
    }
    return text;
}

void CpuSet::trim() noexcept {
    while (!words_.empty() && words_.back() == 0) words_.pop_back();
}

} // namespace viaduct::topology
