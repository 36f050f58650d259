// SPDX-License-Identifier: Apache-2.0
#include "driver/staged_dispatch.h"

#include "base/assert.h"
#include "rt/thread.h"

#include <vector>

namespace viaduct::driver {

StagedDispatch::StagedDispatch(RequestQueue& queue)
    : queue_(queue), thread_(rt::start_thread("dispatch", [this] { dequeue(); })) {}

StagedDispatch::~StagedDispatch() {
    {
        const sync::Lock lock{mutex_};
        stopping_ = true;
    }
    filled_.notify_one();
    thread_.join();
    ASSERT(pending_.empty());
}

Status StagedDispatch::submit(Request& request) {
    Request* const one = &request;
    return submit({&one, 1});
}

Status StagedDispatch::submit(std::span<Request* const> requests) {
    if (!queue_.running()) return fail(ENOTCONN);
    {
        const sync::Lock lock{mutex_};
        ASSERT(!stopping_);
        queue_.announce(requests.size());
        for (Request* const request : requests) {
            ASSERT(request->place() == Request::Place::none);
            request->set_place(Request::Place::waiting);
            pending_.push_back(*request);
        }
    }
    filled_.notify_one();
    return {};
}

bool StagedDispatch::withdraw(Request& request) {
    {
        const sync::Lock lock{mutex_};
        if (!pending_.contains(request)) return false;
        pending_.remove(request);
        request.set_place(Request::Place::none);
    }
    request.done(fail(EINTR));
    queue_.take_back(1);
    queue_.look_again();
    return true;
}

void StagedDispatch::dequeue() {
    std::vector<Request*> batch;
    for (;;) {
        {
            sync::Lock lock{mutex_};
            filled_.wait(lock, [this] { return stopping_ || !pending_.empty(); });
            if (pending_.empty()) return;
            while (Request* const request = pending_.pop_front()) {
                request->set_place(Request::Place::none);
                batch.push_back(request);
            }
        }
        const bool submitted = queue_.submit(batch).has_value();
        if (!submitted)
            for (Request* const request : batch) request->done(fail(ECONNABORTED));
        queue_.take_back(batch.size());
        if (!submitted) queue_.look_again();
        batch.clear();
    }
}

} // namespace viaduct::driver
