// SPDX-License-Identifier: Apache-2.0
//
// Background requests (readahead, writeback, direct I/O that nobody sits and waits for): at most so many are
// with the device at once, the others wait in order.  Linux has the same bound, max_background of FUSE.
//
// Any thread.  A request that ends makes room for the next one on the thread that found its end.
#pragma once

#include "base/result.h"
#include "base/sync.h"
#include "driver/request.h"

#include <cstddef>
#include <cstdint>

namespace viaduct::driver {

class BackgroundLimit {
public:
    static constexpr std::uint32_t kDefault = 12; // Linux's

    // `max`: at least 1.
    explicit BackgroundLimit(std::uint32_t max = kDefault);
    ~BackgroundLimit(); // no request is active or waits

    // RequestQueue::submit() of `queue`, now or when it is this request's turn.  ENOTCONN and the like as
    // there, while there is room; later the error goes to done(): ECONNABORTED when the queue has ended for
    // good meanwhile, else what submit() says.
    Status submit(RequestQueue& queue, Request& request);
    // Takes back a request that waits; it ends with EINTR.  false: it is the queue's, or has ended.
    bool withdraw(Request& request);
    // A larger bound lets requests go at once.
    void set_max(std::uint32_t max);

    std::size_t active() const; // given to a queue, not ended yet
    std::size_t waiting() const;

private:
    friend class RequestQueue;
    void one_ended();
    // With the lock held.  What cannot be sent is left in `failed` with its error.
    void flush(RequestList& failed);
    static void end(RequestList requests);

    mutable sync::Mutex mutex_; // guards what follows; taken before a queue's
    std::uint32_t max_;
    RequestList waiting_;
    std::size_t active_ = 0;
    std::size_t waiting_count_ = 0;
};

} // namespace viaduct::driver
