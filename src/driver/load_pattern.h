// SPDX-License-Identifier: Apache-2.0
//
// What blocks of a load's file hold: words that depend on their place in the file and on how often the block
// has been written, so that data of another place or of another time is found out.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>

namespace viaduct::driver {

constexpr std::uint64_t load_word(std::uint64_t offset, std::uint64_t generation) {
    std::uint64_t value = offset + generation * 0x9e37'79b9'7f4a'7c15;
    value ^= value >> 31;
    value *= 0xbf58'476d'1ce4'e5b9;
    return value ^ (value >> 29);
}

// `bytes` is a multiple of 8 long and lies at `offset` of the file.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t offset, std::uint64_t generation) {
    for (std::size_t place = 0; place < bytes.size(); place += sizeof(std::uint64_t)) {
        const std::uint64_t word = load_word(offset + place, generation);
        std::memcpy(bytes.data() + place, &word, sizeof word);
    }
}

inline bool has_pattern(std::span<const std::byte> bytes, std::uint64_t offset, std::uint64_t generation) {
    for (std::size_t place = 0; place < bytes.size(); place += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data() + place, sizeof word);
        if (word != load_word(offset + place, generation)) return false;
    }
    return true;
}

} // namespace viaduct::driver
