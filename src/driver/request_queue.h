// SPDX-License-Identifier: Apache-2.0
//
// A queue of requests to a device: a virtqueue with its two eventfds.
//
// A request goes on the ring in the submitter's thread, under the queue's lock; there is no list that another
// thread takes it from.  What does not fit is parked: in order, never overtaken, and put on the ring in the
// same critical section in which room is made, so that no wake-up can be lost.
//
// Any thread may submit, poll and wait.  Requests end on the thread that finds their end, outside the lock.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "base/sync.h"
#include "driver/request.h"
#include "virtio/driver_queue.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

namespace viaduct::driver {

using Deadline = std::chrono::steady_clock::time_point;

inline Deadline after(std::chrono::milliseconds time) {
    return std::chrono::steady_clock::now() + time;
}

class RequestQueue {
public:
    // EMFILE and the like: no eventfds.
    static Result<std::unique_ptr<RequestQueue>> make();
    ~RequestQueue(); // nothing is in flight

    // Puts one request on the ring, or parks it.  ENOTCONN: the queue is not running, or has ended; EINVAL:
    // no descriptors, or more than the ring can ever hold; EIO: the ring is broken.  On an error done() is
    // not called.
    Status submit(Request& request);
    // Several, with one kick at most.  The error of one request that cannot be put on the ring goes to its
    // done().
    Status submit(std::span<Request* const> requests);
    // Takes back a request that is still parked; it ends with EINTR.  false: it is on the ring, or has ended.
    bool withdraw(Request& request);

    // Another thread is going to submit so many requests: whoever waits goes on waiting for them. take_back()
    // when they have been submitted, or, with look_again(), when they will not be.
    void announce(std::size_t requests) noexcept {
        announced_.fetch_add(requests, std::memory_order_relaxed);
    }
    void take_back(std::size_t requests) noexcept {
        announced_.fetch_sub(requests, std::memory_order_relaxed);
    }

    // Ends what the device has given back; how many.
    std::size_t poll();
    // The same, but waits for the first one.  0: the deadline has passed, or the queue has nothing in flight
    // or announced any more.
    std::size_t wait(Deadline deadline);
    // Until `flag` is set, by a done() that this queue calls.  false: it is not, and the deadline has passed
    // or the queue has nothing in flight or announced any more.
    bool wait_for(const std::atomic<bool>& flag, Deadline deadline);
    // Until nothing is in flight.  ETIMEDOUT.
    Status drain(Deadline deadline);
    // Ends what comes back, for all, asleep in between, until `stop` is set and look_again() called.  One
    // thread at a time; waiters then leave it to that thread.
    void serve(const std::atomic<bool>& stop);
    void look_again();

    // Submitted, parked ones included, and done() has not returned yet.
    std::size_t in_flight() const;
    std::size_t parked() const;

    // Numbers since make(); they may be read at any time.
    struct Stats {
        sync::Counter submitted;
        sync::Counter ended;
        sync::Counter parked;     // had to wait for room
        sync::Counter kicks;      // eventfd writes
        sync::Counter interrupts; // signals on the call fd, as far as they have been read
        sync::Counter lies;       // replies with a wrong length or unique
    };
    const Stats& stats() const noexcept { return stats_; }
    // Reads what is left on the call fd, so that `interrupts` is exact.
    void count_interrupts();

    // For whoever sets the device up.
    FdRef kick_fd() const noexcept { return kick_; }
    FdRef call_fd() const noexcept { return call_; }
    FdRef error_fd() const noexcept { return error_; }
    // Begins on an empty ring.  Only while the queue is not running and nothing is in flight.  ENOTCONN:
    // ended for good.
    Status start(std::unique_ptr<virtio::DriverQueue> ring);
    // Submitting is refused (ENOTCONN); what is on the ring stays there and may still be polled.
    void pause();
    // After pause(), when the device has stopped: takes what has come back.  true: the ring is empty and can
    // be gone on with.  false: the device kept requests; everything in flight ends with `error`.
    bool settle(Errno error);
    // pause(), and parked requests end with `error`; what is on the ring may still come back.
    void close(Errno error);
    // Goes on with the ring of before, after pause() and settle().
    void resume();
    // Not running any more: everything in flight ends with `error`.  `for_good`: start() is refused from then
    // on.
    void end(Errno error, bool for_good);
    // As it was a moment ago, without a lock.
    bool running() const noexcept { return state_.load(std::memory_order_acquire) == State::running; }
    bool ended_for_good() const;

private:
    RequestQueue(Fd kick, Fd call, Fd error, Fd wake) noexcept
        : kick_(std::move(kick)), call_(std::move(call)), error_(std::move(error)), wake_(std::move(wake)) {}

    enum class State : std::uint8_t { idle, running, paused, over };

    // With the lock held.
    Status put_on_ring(Request& request);
    Status enqueue(Request& request);
    void reclaim();
    void refill();
    void take_off(Request& request, Result<std::uint32_t> result);
    void take_off_all(Errno error);
    void wake_leader() noexcept;
    bool wants_kick();
    // Without it.
    void kick() noexcept;
    std::size_t finish(RequestList ended);
    bool sleep(Deadline deadline);
    bool lead(sync::Lock& lock, Deadline deadline);
    template <class Satisfied>
    bool wait_until(sync::Lock& lock, Deadline deadline, const Satisfied& satisfied);

    const Fd kick_;
    const Fd call_;
    const Fd error_;
    const Fd wake_; // an eventfd: the thread that sleeps on the call fd looks again

    mutable sync::Mutex mutex_; // guards what follows; a leaf
    std::condition_variable_any something_ended_;
    std::unique_ptr<virtio::DriverQueue> ring_;
    std::atomic<State> state_{State::idle}; // written under the lock; running() reads it without
    RequestList on_ring_;
    RequestList parked_; // while not empty, the ring holds at least one chain
    RequestList ended_;  // have their result, done() not called yet
    std::size_t in_flight_ = 0;
    std::size_t parked_count_ = 0;
    std::uint64_t ended_count_ = 0; // done() has returned; wraps never
    bool leading_ = false;          // one waiter sleeps on the call fd, the others on something_ended_
    bool served_ = false;           // by a thread in serve(): the only one that leads from then on
    // Requests of announce().  Without the lock; taken back only after the submit() that counts them in
    // in_flight_, so that nobody with the lock finds both at zero meanwhile.
    std::atomic<std::size_t> announced_{0};
    std::uint32_t waiters_ = 0;
    Stats stats_; // written under the lock
};

} // namespace viaduct::driver
