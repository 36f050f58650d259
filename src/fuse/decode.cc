// SPDX-License-Identifier: Apache-2.0
#include "fuse/decode.h"

#include <algorithm>
#include <cstring>

namespace viaduct::fuse {

Status Decoded::decode(Segments in, const Dialect& dialect) noexcept {
    reader_ = SegmentReader{in};
    opcode_ = nullptr;
    rest_bytes_ = 0;
    has_header_ = reader_.read(header_);
    if (!has_header_) return fail(EINVAL);

    opcode_ = &fuse::opcode(header_.opcode);
    if (header_.len < kInHeaderBytes || header_.len > segments_bytes(in)) return fail(EINVAL);
    rest_bytes_ = header_.len - kInHeaderBytes;
    if (opcode_->verdict != Verdict::served) [[unlikely]]
        return fail(ENOSYS);

    std::size_t wanted = opcode_->in_bytes_max;
    if (header_.opcode == FUSE_SETXATTR && !dialect.setxattr_ext) wanted = opcode_->in_bytes_min;
    const std::size_t present = std::min(wanted, rest_bytes_);
    if (present < opcode_->in_bytes_min) return fail(EINVAL);
    if (header_.opcode == FUSE_SETXATTR && present < wanted) return fail(EINVAL);
    if (!take(fixed_.data(), present)) return fail(EINVAL);
    // Also the longer form of SETXATTR where it did not come: its users read zeros.
    if (present < opcode_->in_bytes_max)
        std::memset(fixed_.data() + present, 0, opcode_->in_bytes_max - present);
    return check_payload();
}

// The body's own claims about what follows it.
Status Decoded::check_payload() const noexcept {
    switch (header_.opcode) {
    case FUSE_WRITE:
        if (fixed<fuse_write_in>().size != rest_bytes_) return fail(EINVAL);
        break;
    case FUSE_BATCH_FORGET:
        if (fixed<fuse_batch_forget_in>().count > rest_bytes_ / sizeof(fuse_forget_one)) return fail(EINVAL);
        break;
    case FUSE_SETXATTR:
        // The name needs a byte and its NUL.
        if (rest_bytes_ < 2 || fixed<fuse_setxattr_in>().size > rest_bytes_ - 2) return fail(EINVAL);
        break;
    default:
        break;
    }
    return {};
}

Result<std::string_view> Decoded::take_string(std::span<char> buffer) noexcept {
    const std::size_t looked_at = std::min(buffer.size(), rest_bytes_);
    SegmentReader ahead = reader_; // where the string ends is known only once it was copied
    if (ahead.copy(buffer.data(), looked_at) != looked_at) return fail(EINVAL);
    const void* const nul = std::memchr(buffer.data(), '\0', looked_at);
    if (nul == nullptr) return fail(looked_at < rest_bytes_ ? ENAMETOOLONG : EINVAL);
    const auto length = static_cast<std::size_t>(static_cast<const char*>(nul) - buffer.data());
    reader_.skip(length + 1);
    rest_bytes_ -= length + 1;
    return std::string_view{buffer.data(), length};
}

void Decoded::skip(std::size_t bytes) noexcept {
    rest_bytes_ -= reader_.skip(std::min(bytes, rest_bytes_));
}

bool Decoded::take(void* to, std::size_t bytes) noexcept {
    if (bytes > rest_bytes_) return false;
    rest_bytes_ -= bytes;
    return reader_.copy(to, bytes) == bytes;
}

} // namespace viaduct::fuse
