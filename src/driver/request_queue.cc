// SPDX-License-Identifier: Apache-2.0
#include "driver/request_queue.h"

#include "base/assert.h"
#include "driver/background_limit.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <utility>

namespace viaduct::driver {
namespace {

void ring_bell(const Fd& fd) noexcept {
    const std::uint64_t one = 1;
    // Full counters (EAGAIN) ring as well.
    [[maybe_unused]] const ssize_t written = ::write(fd.get(), &one, sizeof one);
}

std::uint64_t take_bell(const Fd& fd) noexcept {
    std::uint64_t count = 0;
    return ::read(fd.get(), &count, sizeof count) == sizeof count ? count : 0;
}

Result<Fd> make_bell() {
    Fd fd{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    if (!fd) return fail(errno);
    return fd;
}

} // namespace

Result<std::unique_ptr<RequestQueue>> RequestQueue::make() {
    TRY(Fd kick, make_bell());
    TRY(Fd call, make_bell());
    TRY(Fd error, make_bell());
    TRY(Fd wake, make_bell());
    return std::unique_ptr<RequestQueue>{
        new RequestQueue{std::move(kick), std::move(call), std::move(error), std::move(wake)}};
}

RequestQueue::~RequestQueue() {
    ASSERT(in_flight_ == 0);
    ASSERT(waiters_ == 0);
}

Status RequestQueue::submit(Request& request) {
    request.read_header();
    bool kick_wanted = false;
    {
        const sync::Lock lock{mutex_};
        if (state_ != State::running) return fail(ENOTCONN);
        TRY_STATUS(enqueue(request));
        kick_wanted = wants_kick();
    }
    if (kick_wanted) kick();
    return {};
}

Status RequestQueue::submit(std::span<Request* const> requests) {
    for (Request* const request : requests) request->read_header();
    bool kick_wanted = false;
    {
        const sync::Lock lock{mutex_};
        if (state_ != State::running) return fail(ENOTCONN);
        for (Request* const request : requests) {
            const Status queued = enqueue(*request);
            if (queued) continue;
            ++in_flight_;
            stats_.submitted.add();
            take_off(*request, fail(queued.error()));
        }
        if (!ended_.empty()) wake_leader();
        kick_wanted = wants_kick();
    }
    if (kick_wanted) kick();
    return {};
}

// On the ring, or ENOSPC, or what else is wrong with it.  The request stands in no list yet.
Status RequestQueue::put_on_ring(Request& request) {
    TRY_STATUS(ring_->stage(request.readable_, request.writable_, &request));
    request.set_place(Request::Place::ring);
    on_ring_.push_back(request);
    return {};
}

// A ring that is full holds chains, and refill() runs wherever chains are taken off: whoever takes the last
// one finds this request parked.
Status RequestQueue::enqueue(Request& request) {
    ASSERT(request.place() == Request::Place::none);
    Status queued = fail(ENOSPC);
    if (parked_.empty()) {
        queued = put_on_ring(request);
        if (!queued && queued.error() == Errno{ENOSPC}) {
            reclaim();
            queued = put_on_ring(request); // EIO when the ring turned out broken
        }
        if (!queued && queued.error() != Errno{ENOSPC}) return queued;
    }
    if (!queued) {
        ASSERT(ring_->in_flight() > 0);
        request.set_place(Request::Place::parked);
        parked_.push_back(request);
        ++parked_count_;
        stats_.parked.add();
    }
    ++in_flight_;
    stats_.submitted.add();
    return {};
}

// Takes everything off the ring that has come back.
void RequestQueue::reclaim() {
    while (ring_->has_used()) {
        // The device wrote the reply just now, most often that of the request which was sent first: it comes
        // over with the used element.
        if (const Request* const first = on_ring_.first()) first->approach_reply();
        const auto used = ring_->poll();
        if (!used) { // the device has written nonsense where used elements should be
            state_ = State::over;
            take_off_all(used.error());
            break;
        }
        if (!*used) break;
        auto& request = *static_cast<Request*>((*used)->token);
        on_ring_.remove(request);
        const auto result = request.verify((*used)->written_bytes);
        if (!result) stats_.lies.add();
        take_off(request, result);
    }
    if (!ended_.empty()) wake_leader();
}

// Puts parked requests on the ring, as far as there is room.
void RequestQueue::refill() {
    while (Request* const request = parked_.pop_front()) {
        const Status queued = put_on_ring(*request);
        if (!queued && queued.error() == Errno{ENOSPC}) {
            parked_.push_front(*request);
            ASSERT(ring_->in_flight() > 0);
            return;
        }
        --parked_count_;
        if (!queued) take_off(*request, fail(queued.error()));
    }
}

// The request stands in no list.
void RequestQueue::take_off(Request& request, Result<std::uint32_t> result) {
    request.set_place(Request::Place::ended);
    request.result_ = result;
    ended_.push_back(request);
}

void RequestQueue::take_off_all(Errno error) {
    while (Request* const request = on_ring_.pop_front()) take_off(*request, fail(error));
    while (Request* const request = parked_.pop_front()) take_off(*request, fail(error));
    parked_count_ = 0;
}

bool RequestQueue::wants_kick() {
    if (state_ != State::running || !ring_->should_kick()) return false;
    stats_.kicks.add();
    return true;
}

void RequestQueue::kick() noexcept {
    ring_bell(kick_);
}

void RequestQueue::wake_leader() noexcept {
    if (leading_) ring_bell(wake_);
}

bool RequestQueue::withdraw(Request& request) {
    RequestList withdrawn;
    {
        const sync::Lock lock{mutex_};
        if (request.place() != Request::Place::parked) return false;
        parked_.remove(request);
        --parked_count_;
        request.set_place(Request::Place::ended);
        request.result_ = fail(EINTR);
        withdrawn.push_back(request);
    }
    finish(std::move(withdrawn));
    return true;
}

std::size_t RequestQueue::poll() {
    RequestList ended;
    bool kick_wanted = false;
    {
        const sync::Lock lock{mutex_};
        if (state_ == State::running || state_ == State::paused) reclaim();
        if (state_ == State::running) refill();
        kick_wanted = wants_kick();
        ended.append(ended_);
    }
    if (kick_wanted) kick();
    return finish(std::move(ended));
}

std::size_t RequestQueue::finish(RequestList ended) {
    std::size_t count = 0;
    while (Request* const request = ended.pop_front()) {
        request->set_place(Request::Place::none);
        if (BackgroundLimit* const limit = std::exchange(request->background_, nullptr)) limit->one_ended();
        request->done(std::exchange(request->result_, 0)); // the request may be gone afterwards
        ++count;
    }
    if (count == 0) return 0;
    const sync::Lock lock{mutex_};
    ASSERT(in_flight_ >= count);
    in_flight_ -= count;
    ended_count_ += count;
    stats_.ended.add(count);
    if (waiters_ > 0) {
        // The leader's own request may have ended here, with the interrupt for it spent already.
        if (!served_) wake_leader();
        something_ended_.notify_all();
    }
    return count;
}

std::size_t RequestQueue::wait(Deadline deadline) {
    const std::size_t ended = poll();
    if (ended > 0) return ended;
    sync::Lock lock{mutex_};
    const std::uint64_t before = ended_count_;
    wait_until(lock, deadline, [&] { return ended_count_ != before; });
    return ended_count_ - before;
}

bool RequestQueue::wait_for(const std::atomic<bool>& flag, Deadline deadline) {
    sync::Lock lock{mutex_};
    // Acquire: pairs with the store in done(); what done() left is seen.
    return wait_until(lock, deadline, [&] { return flag.load(std::memory_order_acquire); });
}

Status RequestQueue::drain(Deadline deadline) {
    sync::Lock lock{mutex_};
    if (!wait_until(lock, deadline, [&] { return in_flight_ == 0; })) return fail(ETIMEDOUT);
    return {};
}

// One waiter, the leader, sleeps on the call fd and ends what comes back, for all; the others sleep on the
// condition variable.
template <class Satisfied>
bool RequestQueue::wait_until(sync::Lock& lock, Deadline deadline, const Satisfied& satisfied) {
    ++waiters_;
    bool in_time = true;
    // Looked at once more after the deadline, so that what came back meanwhile is not missed.
    const auto to_come = [this] { return in_flight_ > 0 || announced_.load(std::memory_order_relaxed) > 0; };
    while (!satisfied() && to_come() && in_time) {
        in_time = leading_ || served_
                      ? something_ended_.wait_until(lock, deadline) == std::cv_status::no_timeout
                      : lead(lock, deadline);
    }
    --waiters_;
    return satisfied();
}

// false: the deadline has passed.
bool RequestQueue::lead(sync::Lock& lock, Deadline deadline) {
    bool in_time = true;
    const bool on_ring = state_ == State::running || state_ == State::paused;
    if (ended_.empty() && !(on_ring && ring_->enable_interrupts())) {
        leading_ = true;
        lock.unlock();
        in_time = sleep(deadline);
        const std::uint64_t signals = take_bell(call_);
        lock.lock();
        leading_ = false;
        stats_.interrupts.add(signals);
        if (ring_) ring_->disable_interrupts();
    }
    lock.unlock();
    poll();
    lock.lock();
    something_ended_.notify_all(); // one of them leads from here on
    return in_time;
}

void RequestQueue::serve(const std::atomic<bool>& stop) {
    sync::Lock lock{mutex_};
    ASSERT(!served_);
    served_ = true;
    ++waiters_;
    wake_leader(); // a waiter that was here before makes room
    while (!stop.load(std::memory_order_acquire)) {
        if (leading_) {
            something_ended_.wait(lock);
        } else {
            lead(lock, Deadline::max());
        }
    }
    --waiters_;
    served_ = false;
    something_ended_.notify_all(); // waiters lead again
}

void RequestQueue::look_again() {
    const sync::Lock lock{mutex_};
    wake_leader();
    something_ended_.notify_all();
}

// false: the deadline has passed.
bool RequestQueue::sleep(Deadline deadline) {
    pollfd fds[] = {{.fd = call_.get(), .events = POLLIN, .revents = 0},
                    {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    const auto left =
        std::chrono::duration_cast<std::chrono::nanoseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return false;
    const timespec limit{.tv_sec = left.count() / 1'000'000'000, .tv_nsec = left.count() % 1'000'000'000};
    const int ready = ::ppoll(fds, 2, &limit, nullptr);
    if (ready > 0 && fds[1].revents != 0) take_bell(wake_);
    return ready != 0;
}

void RequestQueue::count_interrupts() {
    const sync::Lock lock{mutex_};
    if (!leading_) stats_.interrupts.add(take_bell(call_));
}

std::size_t RequestQueue::in_flight() const {
    const sync::Lock lock{mutex_};
    return in_flight_;
}

std::size_t RequestQueue::parked() const {
    const sync::Lock lock{mutex_};
    return parked_count_;
}

Status RequestQueue::start(std::unique_ptr<virtio::DriverQueue> ring) {
    const sync::Lock lock{mutex_};
    if (state_ == State::over) return fail(ENOTCONN);
    ASSERT(state_ == State::idle || state_ == State::paused);
    ASSERT(on_ring_.empty());
    ASSERT(parked_.empty());
    ring_ = std::move(ring);
    ring_->disable_interrupts();
    state_ = State::running;
    wake_leader(); // it slept on the ring of before
    return {};
}

void RequestQueue::resume() {
    bool kick_wanted = false;
    {
        const sync::Lock lock{mutex_};
        if (state_ != State::paused) return; // ended meanwhile
        state_ = State::running;
        refill();
        kick_wanted = wants_kick();
    }
    if (kick_wanted) kick();
}

void RequestQueue::pause() {
    const sync::Lock lock{mutex_};
    if (state_ == State::running) state_ = State::paused;
}

void RequestQueue::close(Errno error) {
    RequestList ended;
    {
        const sync::Lock lock{mutex_};
        if (state_ == State::running) state_ = State::paused;
        while (Request* const request = parked_.pop_front()) take_off(*request, fail(error));
        parked_count_ = 0;
        ended.append(ended_);
    }
    finish(std::move(ended));
}

bool RequestQueue::settle(Errno error) {
    poll();
    {
        const sync::Lock lock{mutex_};
        if (state_ == State::paused && on_ring_.empty()) return true;
    }
    end(error, false);
    return false;
}

void RequestQueue::end(Errno error, bool for_good) {
    RequestList ended;
    {
        const sync::Lock lock{mutex_};
        if (state_ == State::running || state_ == State::paused) {
            reclaim(); // what has come back has come back
            take_off_all(error);
        }
        state_ = for_good || state_ == State::over ? State::over : State::idle;
        ended.append(ended_);
        wake_leader();
    }
    finish(std::move(ended));
}

bool RequestQueue::ended_for_good() const {
    const sync::Lock lock{mutex_};
    return state_ == State::over;
}

} // namespace viaduct::driver
