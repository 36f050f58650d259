// SPDX-License-Identifier: Apache-2.0
#include "guestvm/trailer.h"

#include "base/assert.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <sys/random.h>

namespace viaduct::guestvm {

void TrailerFilter::feed(std::string_view bytes, std::string& out) {
    if (complete_) return;
    held_.append(bytes);
    if (const auto at = held_.find(trailer_); at != std::string::npos) {
        complete_ = true;
        out.append(held_, 0, at);
        held_.clear();
        return;
    }
    // The longest end of what is held that may yet become the trailer stays.
    std::size_t keep = std::min(held_.size(), trailer_.size() - 1);
    while (!held_.ends_with(std::string_view{trailer_}.substr(0, keep))) --keep;
    out.append(held_, 0, held_.size() - keep);
    held_.erase(0, held_.size() - keep);
}

std::string TrailerFilter::random_trailer() {
    std::array<std::uint64_t, 2> bits;
    ASSERT(::getrandom(bits.data(), sizeof bits, 0) == sizeof bits);
    std::array<char, 64> text;
    const int length =
        std::snprintf(text.data(), text.size(), "<end %016llx%016llx>",
                      static_cast<unsigned long long>(bits[0]), static_cast<unsigned long long>(bits[1]));
    return std::string{text.data(), static_cast<std::size_t>(length)};
}

} // namespace viaduct::guestvm
