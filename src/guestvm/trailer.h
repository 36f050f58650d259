// SPDX-License-Identifier: Apache-2.0
//
// Finds the end of a stream that has no end-of-file of its own: the bytes before a known trailer.
#pragma once

#include <string>
#include <string_view>

namespace viaduct::guestvm {

class TrailerFilter {
public:
    explicit TrailerFilter(std::string trailer) noexcept : trailer_(std::move(trailer)) {}

    // Appends to `out` what is certain not to be part of the trailer.  Bytes after the trailer are dropped.
    void feed(std::string_view bytes, std::string& out);
    bool complete() const noexcept { return complete_; }

    // 128 random bits in a form that no program prints by accident.
    static std::string random_trailer();

private:
    std::string trailer_;
    std::string held_; // a proper prefix of the trailer, or less
    bool complete_ = false;
};

} // namespace viaduct::guestvm
