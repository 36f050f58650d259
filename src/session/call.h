// SPDX-License-Identifier: Apache-2.0
//
// Call: one request while it is being served.
//
// A worker keeps Calls for reuse, so that serving a request allocates nothing.  A call that waits owns all
// that it hands to the FileSystem by reference: caller, names, segment list, buffers.
#pragma once

#include "fs/file_system.h"
#include "fuse/decode.h"
#include "fuse/encode.h"
#include "fuse/raw_request.h"
#include "rt/cancellation.h"
#include "session/dirents.h"

#include <optional>
#include <vector>

namespace viaduct::session {

struct Call {
    fuse::RawRequest* raw = nullptr;
    fuse::Decoded request;
    fs::Caller caller;
    std::optional<fs::Name> name;
    std::optional<fs::Name> new_name;
    std::vector<iovec> segments;   // where the request's own cannot be used as they are
    std::vector<std::byte> buffer; // values of extended attributes
    fs::SetAttr change;
    fs::SecurityLabel label;
    PackedDirents dirents;

    rt::Cancellation cancellation; // of what it waits for

    // Free list and list of waiting calls, of the worker that serves it.
    Call* next = nullptr;
    Call* previous = nullptr;

    std::uint64_t unique() const noexcept { return request.header().unique; }
    fs::NodeId node() const noexcept { return fs::NodeId{request.header().nodeid}; }
    template <class T> const T& in() const noexcept { return request.fixed<T>(); }

    // Capacity is kept from request to request, up to these: 1 MiB in pages, and most values.
    static constexpr std::size_t kSegmentsKeptMax = 512;
    static constexpr std::size_t kBufferBytesKeptMax = 4096;
    void give_back() noexcept {
        if (segments.capacity() > kSegmentsKeptMax) [[unlikely]]
            std::vector<iovec>{}.swap(segments);
        if (buffer.capacity() > kBufferBytesKeptMax) [[unlikely]]
            std::vector<std::byte>{}.swap(buffer);
        if (label.value.capacity() > kBufferBytesKeptMax) [[unlikely]]
            std::vector<std::byte>{}.swap(label.value);
    }

    // Takes the next string of the request as a name.
    Status take_name(std::optional<fs::Name>& into) noexcept;
    // Takes what comes behind the names of a request that makes something.
    Status take_extensions(const fuse::Dialect& dialect);

    // Replies, by their length in bytes.
    std::size_t reply_error(Errno error) const noexcept {
        return fuse::reply_error(raw->out(), unique(), error.value());
    }
    std::size_t reply_done() const noexcept { return fuse::reply_done(raw->out(), unique()); }
    template <class Body> std::size_t reply(const Body& body) const noexcept {
        return fuse::reply(raw->out(), unique(), body);
    }
};

// `bytes_max` bytes of `all` from `skip` on.  Where both ends lie between two segments, as Linux lays out its
// requests, it is a part of `all`; otherwise `scratch` holds it.
Segments slice(Segments all, std::size_t skip, std::size_t bytes_max, std::vector<iovec>& scratch);

} // namespace viaduct::session
