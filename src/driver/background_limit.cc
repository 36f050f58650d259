// SPDX-License-Identifier: Apache-2.0
#include "driver/background_limit.h"

#include "base/assert.h"
#include "driver/request_queue.h"

#include <utility>

namespace viaduct::driver {

BackgroundLimit::BackgroundLimit(std::uint32_t max) : max_(max) {
    ASSERT(max > 0);
}

BackgroundLimit::~BackgroundLimit() {
    ASSERT(active_ == 0);
    ASSERT(waiting_.empty());
}

Status BackgroundLimit::submit(RequestQueue& queue, Request& request) {
    const sync::Lock lock{mutex_};
    ASSERT(request.place() == Request::Place::none);
    if (active_ < max_) {
        ASSERT(waiting_.empty());
        request.background_ = this;
        const Status submitted = queue.submit(request);
        if (submitted) {
            ++active_;
        } else {
            request.background_ = nullptr;
        }
        return submitted;
    }
    if (!queue.running()) return fail(ENOTCONN);
    request.set_place(Request::Place::waiting);
    request.queue_next_ = &queue;
    waiting_.push_back(request);
    ++waiting_count_;
    return {};
}

// The queue's lock is taken under ours, so that nobody overtakes; submit() ends no request.
void BackgroundLimit::flush(RequestList& failed) {
    while (active_ < max_) {
        Request* const request = waiting_.pop_front();
        if (request == nullptr) return;
        --waiting_count_;
        RequestQueue& queue = *std::exchange(request->queue_next_, nullptr);
        request->set_place(Request::Place::none);
        request->background_ = this;
        ++active_; // before it can end
        const Status submitted = queue.submit(*request);
        if (submitted) continue;
        --active_;
        request->background_ = nullptr;
        request->set_place(Request::Place::ended);
        request->result_ = fail(queue.ended_for_good() ? Errno{ECONNABORTED} : submitted.error());
        failed.push_back(*request);
    }
}

void BackgroundLimit::end(RequestList requests) {
    while (Request* const request = requests.pop_front()) {
        request->set_place(Request::Place::none);
        request->done(std::exchange(request->result_, 0));
    }
}

void BackgroundLimit::one_ended() {
    RequestList failed;
    {
        const sync::Lock lock{mutex_};
        ASSERT(active_ > 0);
        --active_;
        flush(failed);
    }
    end(std::move(failed));
}

bool BackgroundLimit::withdraw(Request& request) {
    RequestList withdrawn;
    {
        const sync::Lock lock{mutex_};
        if (!waiting_.contains(request)) return false;
        waiting_.remove(request);
        --waiting_count_;
        request.set_place(Request::Place::ended);
        request.result_ = fail(EINTR);
        withdrawn.push_back(request);
    }
    end(std::move(withdrawn));
    return true;
}

void BackgroundLimit::set_max(std::uint32_t max) {
    ASSERT(max > 0);
    RequestList failed;
    {
        const sync::Lock lock{mutex_};
        max_ = max;
        flush(failed);
    }
    end(std::move(failed));
}

std::size_t BackgroundLimit::active() const {
    const sync::Lock lock{mutex_};
    return active_;
}

std::size_t BackgroundLimit::waiting() const {
    const sync::Lock lock{mutex_};
    return waiting_count_;
}

} // namespace viaduct::driver
