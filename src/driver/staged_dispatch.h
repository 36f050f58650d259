// SPDX-License-Identifier: Apache-2.0
//
// Dispatch as it was before it was direct: the submitter appends to a list under a lock and wakes a thread,
// which takes requests from the list and puts them on the queue.  For comparison with RequestQueue::submit();
// all else is shared.
#pragma once

#include "base/result.h"
#include "base/sync.h"
#include "driver/request.h"
#include "driver/request_queue.h"

#include <condition_variable>
#include <span>
#include <thread>

namespace viaduct::driver {

class StagedDispatch {
public:
    // Starts the thread.  The queue outlives it.
    explicit StagedDispatch(RequestQueue& queue);
    ~StagedDispatch(); // what is on the list still goes on the queue

    // ENOTCONN: the queue is not running.  Later errors go to done(): ECONNABORTED when the queue has been
    // stopped or has ended while the request was on the list.
    Status submit(Request& request);
    Status submit(std::span<Request* const> requests);
    // Takes back a request that is still on the list; it ends with EINTR.  false: it is the queue's.
    bool withdraw(Request& request);

private:
    void dequeue(); // the thread's

    RequestQueue& queue_;
    sync::Mutex mutex_; // guards what follows; a leaf
    std::condition_variable_any filled_;
    RequestList pending_;
    bool stopping_ = false;

    std::thread thread_;
};

} // namespace viaduct::driver
