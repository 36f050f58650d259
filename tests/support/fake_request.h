// SPDX-License-Identifier: Apache-2.0
//
// A RawRequest in memory of the test's own, which notes how it was completed.
#pragma once

#include "fuse/raw_request.h"
#include "rt/worker.h"
#include "support/fuse_message.h"

#include <atomic>
#include <optional>

namespace viaduct::test {

class FakeRequest final : public fuse::RawRequest {
public:
    // `in_piece` and `out_piece`: memory is cut into pieces of that many bytes (0: in the way Linux lays it
    // out, header apart from the rest).
    FakeRequest(const FuseMessage& message, std::size_t room, std::size_t in_piece = 0,
                std::size_t out_piece = 0)
        : FakeRequest(message.bytes(), room, in_piece, out_piece) {}
    FakeRequest(std::vector<std::byte> bytes, std::size_t room, std::size_t in_piece = 0,
                std::size_t out_piece = 0)
        : in_bytes_(std::move(bytes)), out_bytes_(room, std::byte{0xee}) {
        in_segments_ =
            in_piece == 0 ? cut(in_bytes_, sizeof(fuse_in_header), std::max<std::size_t>(1, in_bytes_.size()))
                          : cut(in_bytes_, 0, in_piece);
        out_segments_ = out_piece == 0
                            ? cut(out_bytes_, sizeof(fuse_out_header), std::max<std::size_t>(1, room))
                            : cut(out_bytes_, 0, out_piece);
        in_ = in_segments_;
        out_ = out_segments_;
    }

    void complete(std::size_t reply_bytes) override {
        ASSERT(!completed_.load());
        ASSERT(reply_bytes <= out_bytes_.size());
        reply_bytes_ = reply_bytes;
        worker_ = rt::Worker::current();
        completed_.store(true);
        completed_.notify_all();
    }

    bool completed() const { return completed_.load(); }
    void wait() const { completed_.wait(false); }
    std::size_t reply_bytes() const { return reply_bytes_; }
    const rt::Worker* worker() const { return worker_; }
    fuse_out_header header() const { return body_at<fuse_out_header>(0); }
    int error() const { return -header().error; }
    // What follows the header.
    template <class T> T body(std::size_t offset = 0) const {
        return body_at<T>(sizeof(fuse_out_header) + offset);
    }
    std::string_view text() const {
        return {reinterpret_cast<const char*>(out_bytes_.data()) + sizeof(fuse_out_header),
                reply_bytes_ - sizeof(fuse_out_header)};
    }
    // Bytes behind the reply must be as they were.
    bool untouched_behind() const {
        return std::all_of(out_bytes_.begin() + static_cast<std::ptrdiff_t>(reply_bytes_), out_bytes_.end(),
                           [](std::byte b) { return b == std::byte{0xee}; });
    }

private:
    template <class T> T body_at(std::size_t offset) const {
        ASSERT(offset + sizeof(T) <= out_bytes_.size());
        T value;
        std::memcpy(&value, out_bytes_.data() + offset, sizeof value);
        return value;
    }

    std::vector<std::byte> in_bytes_;
    std::vector<std::byte> out_bytes_;
    std::vector<iovec> in_segments_;
    std::vector<iovec> out_segments_;
    std::atomic<bool> completed_{false};
    std::size_t reply_bytes_ = 0;
    const rt::Worker* worker_ = nullptr;
};

} // namespace viaduct::test
