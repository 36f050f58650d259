// SPDX-License-Identifier: Apache-2.0
//
// From the bytes of a request to checked values.
//
// Every value is copied out of the client's memory once and checked in the copy.  Lengths in the header, in
// the body and of the memory are independent claims: none is believed before it was compared with the others.
#pragma once

#include "base/result.h"
#include "base/segments.h"
#include "fuse/opcodes.h"
#include "fuse/protocol.h"

#include <array>
#include <span>
#include <string_view>

namespace viaduct::fuse {

// What INIT settled about the layout of requests.
struct Dialect {
    bool setxattr_ext = false;     // SETXATTR carries the longer struct
    bool security_context = false; // what is made may come with one
};

// A request's header and fixed struct.  What follows it (names, payload) is taken by the calls below, in
// order.
class Decoded {
public:
    // Reads and checks.  On failure has_header() tells whether there is a request to be answered.
    // EINVAL: a length that lies; ENOSYS: an opcode that is not served.
    Status decode(Segments in, const Dialect& dialect) noexcept;

    bool has_header() const noexcept { return has_header_; }
    const fuse_in_header& header() const noexcept { return header_; }
    const Opcode& opcode() const noexcept { return *opcode_; }

    // The fixed struct.
    template <class T> const T& fixed() const noexcept {
        static_assert(sizeof(T) <= kFixedBytesMax);
        static_assert(alignof(T) <= 8);
        return *reinterpret_cast<const T*>(fixed_.data());
    }

    // Bytes that follow and have not been taken.
    std::size_t rest_bytes() const noexcept { return rest_bytes_; }
    // Where the rest begins, from the start of the request.
    std::size_t rest_offset() const noexcept { return header_.len - rest_bytes_; }

    // Takes a string with its NUL; what comes behind is left.  `buffer` holds it afterwards, NUL included.
    // EINVAL: no NUL; ENAMETOOLONG: `buffer` is too small.
    Result<std::string_view> take_string(std::span<char> buffer) noexcept;
    // Takes exactly `bytes`; false when there are fewer.
    bool take(void* to, std::size_t bytes) noexcept;
    // Takes `bytes` that nobody needs, of those that are there.
    void skip(std::size_t bytes) noexcept;

private:
    static constexpr std::size_t kFixedBytesMax = 96;

    Status check_payload() const noexcept;

    SegmentReader reader_{Segments{}};
    const Opcode* opcode_ = nullptr;
    std::size_t rest_bytes_ = 0;
    bool has_header_ = false;
    fuse_in_header header_;
    alignas(8) std::array<std::byte, kFixedBytesMax> fixed_; // set as far as the opcode's struct goes
};

} // namespace viaduct::fuse
