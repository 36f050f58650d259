// SPDX-License-Identifier: Apache-2.0
//
// A FUSE request as a transport hands it over, and the sink that takes it.
//
// The request says nothing of where it came from: segments to read it from, segments to put the reply into,
// and complete().  A sink that needs to wait keeps the reference; the transport keeps the request alive until
// complete().
#pragma once

#include "base/segments.h"

#include <cstddef>
#include <functional>

namespace viaduct::fuse {

class RawRequest {
public:
    // The request from fuse_in_header on.  The memory may change while it is read.
    Segments in() const noexcept { return in_; }
    // Room for fuse_out_header and what follows it; empty when no reply is wanted (FORGET).
    Segments out() const noexcept { return out_; }

    // The first `reply_bytes` bytes of out() hold the reply; 0 for none.  Called exactly once, on the worker
    // that the request was handed to; the request is gone afterwards.
    virtual void complete(std::size_t reply_bytes) = 0;

protected:
    RawRequest() = default;
    ~RawRequest() = default;
    RawRequest(const RawRequest&) = delete;
    RawRequest& operator=(const RawRequest&) = delete;

    Segments in_;
    Segments out_;
};

// Which of the requests that a sink has are meant.
using RequestChoice = std::function<bool(const RawRequest&)>;

// Takes requests over.  Called on the worker that owns the queue.
class RequestSink {
public:
    virtual void handle(RawRequest& request) = 0;
    // Asks those requests handed in on this worker which wait to end soon, with EINTR.  They are completed
    // all the same, later than in this call; one that cannot be called off, in its own time.
    virtual void cancel([[maybe_unused]] const RequestChoice& chosen) {}

protected:
    ~RequestSink() = default;
};

} // namespace viaduct::fuse
