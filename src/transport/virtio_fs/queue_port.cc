// SPDX-License-Identifier: Apache-2.0
#include "transport/virtio_fs/queue_port.h"

#include "base/log.h"
#include "rt/ticks.h"
#include "virtio/peer_order.h"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace viaduct::transport {
namespace {

// A request object whose lists grew past this gives their memory back when it is done: 1 MiB in pages, a
// header and some slack.
constexpr std::size_t kSegmentsKeptMax = 512;

// A guest that resets a queue and breaks it again cannot fill the log.
constexpr std::uint32_t kComplaintsMax = 10;

// With all 32 of a polling driver published together it and the worker took turns: every batch was a sleep
// and a wake-up, and null requests ran at half the rate.
constexpr std::uint32_t kServedPerPublication = 8;
// Requests that take long are published one by one, for the same reason; some microseconds.
constexpr std::uint64_t kTicksPerPublication = 8192;

void signal_eventfd(FdRef fd) noexcept {
    const std::uint64_t one = 1;
    // The descriptor is non-blocking.  EAGAIN: its counter is full, so the other side is awake or not
    // listening.
    [[maybe_unused]] const auto written = ::write(fd.get(), &one, sizeof one);
}

} // namespace

QueuePort::QueuePort(std::uint16_t index, rt::Worker& worker, fuse::RequestSink& sink,
                     std::size_t segments_max) noexcept
    : index_(index), worker_(worker), sink_(sink), segments_max_(segments_max) {}

QueuePort::~QueuePort() {
    ASSERT(!started_);
    ASSERT(in_flight_ == 0);
}

Status QueuePort::start(vhost::QueueSetup setup, std::shared_ptr<const vhost::MemoryTable> table) {
    ASSERT(worker_.is_current());
    ASSERT(!started_);
    auto queue = virtio::DeviceQueue::make(table->view(), setup.layout);
    if (!queue) return fail(queue.error());
    if (setup.kick) TRY_STATUS(worker_.ring().watch(setup.kick.get(), *this));
    queue_.emplace(*queue);
    queue_->suppress_kicks(); // until arm(): a new ring asks for them
    uses_.push_back(std::make_unique<MemoryUse>(std::move(table)));
    kick_ = std::move(setup.kick);
    call_ = std::move(setup.call);
    error_ = std::move(setup.error);
    enabled_ = setup.enabled;
    started_ = true;
    accepting_ = true;
    broken_ = false;
    armed_ = false;
    staged_ = false;
    signal_due_ = false;
    ++run_;
    worker_.add(*this);
    return {};
}

void QueuePort::finish() {
    ASSERT(worker_.is_current());
    if (!started_) return;
    flush();
    worker_.remove(*this);
    if (kick_) worker_.ring().unwatch(kick_.get(), *this);
    started_ = false;
    accepting_ = false;
    ++run_;
    queue_.reset();
    kick_.reset();
    call_.reset();
    error_.reset();
    std::erase_if(uses_, [](const auto& use) { return use->in_flight == 0; });
}

Status QueuePort::set_memory(std::shared_ptr<const vhost::MemoryTable> table) {
    ASSERT(worker_.is_current());
    if (!started_) return {};
    flush();
    const Status found = queue_->set_memory(table->view());
    uses_.push_back(std::make_unique<MemoryUse>(std::move(table)));
    const MemoryUse* const present = uses_.back().get();
    std::erase_if(uses_, [present](const auto& use) { return use.get() != present && use->in_flight == 0; });
    if (!found) break_queue();
    return found;
}

std::uint64_t QueuePort::in_flight_on_old_memory() const noexcept {
    return uses_.empty() ? 0 : in_flight_ - uses_.back()->in_flight;
}

std::uint64_t QueuePort::waited_for(bool old_only) const noexcept {
    return old_only ? in_flight_on_old_memory() : in_flight_;
}

rt::Task<bool> QueuePort::drain(std::chrono::nanoseconds timeout) {
    return wait_for_requests(timeout, false);
}

rt::Task<bool> QueuePort::drain_old_memory(std::chrono::nanoseconds timeout) {
    return wait_for_requests(timeout, true);
}

rt::Task<bool> QueuePort::wait_for_requests(std::chrono::nanoseconds timeout, bool old_only) {
    const std::chrono::nanoseconds grace = std::min<std::chrono::nanoseconds>(timeout / 2, kGrace);
    auto patient = wait_without_asking(timeout - grace, old_only);
    const bool ended = co_await std::move(patient);
    if (ended) co_return true;
    call_off(old_only);
    auto last = wait_without_asking(grace, old_only);
    co_return co_await std::move(last);
}

void QueuePort::call_off(bool old_only) {
    const MemoryUse* const present = old_only ? uses_.back().get() : nullptr;
    // The sink has requests of this device only.
    sink_.cancel([this, present](const fuse::RawRequest& raw) {
        const auto& request = static_cast<const Request&>(raw);
        return &request.port() == this && request.use != present;
    });
}

// The timer is what is waited for; the request that is the last to end cancels it.
rt::Task<bool> QueuePort::wait_without_asking(std::chrono::nanoseconds timeout, bool old_only) {
    ASSERT(worker_.is_current());
    ASSERT(drain_timer_ == nullptr);
    if (waited_for(old_only) == 0) co_return true;
    rt::Operation timer = worker_.ring().sleep(static_cast<std::uint64_t>(timeout.count()));
    drain_timer_ = &timer;
    drain_old_only_ = old_only;
    co_await timer;
    drain_timer_ = nullptr;
    co_return waited_for(old_only) == 0;
}

QueuePort::Request& QueuePort::take_request() {
    if (free_.empty()) {
        requests_.push_back(std::make_unique<Request>(*this));
        return *requests_.back();
    }
    Request& request = *free_.back();
    free_.pop_back();
    return request;
}

void QueuePort::count_segments(Request& request) noexcept {
    const std::size_t capacity = request.capacity();
    segments_ += capacity - request.segments;
    request.segments = capacity;
}

// What is kept for reuse stays below half the bound: a queue with nothing in flight always takes a chain.
void QueuePort::recycle(Request& request) {
    const std::size_t kept_max = segments_ > segments_max_ / 2 ? 0 : kSegmentsKeptMax;
    for (auto* const list : {&request.chain.readable, &request.chain.writable})
        if (list->capacity() > kept_max) std::vector<iovec>{}.swap(*list);
    count_segments(request);
    free_.push_back(&request);
}

void QueuePort::give_back(Request& request, std::size_t reply_bytes) {
    ASSERT(worker_.is_current());
    ASSERT(reply_bytes <= request.chain.writable_bytes);
    ASSERT(in_flight_ > 0);
    --in_flight_;
    --request.use->in_flight;
    virtio::leave_to_guest(request.chain);
    if (request.run == run_ && !broken_) {
        queue_->push(request.chain.ticket, static_cast<std::uint32_t>(reply_bytes));
        staged_ = true;
    }
    recycle(request);
    if (drain_timer_ != nullptr && waited_for(drain_old_only_) == 0) worker_.ring().cancel(*drain_timer_);
}

bool QueuePort::serve_one() {
    Request& request = take_request();
    const auto popped = queue_->pop(request.chain);
    count_segments(request);
    if (!popped || !*popped) {
        recycle(request);
        if (!popped) break_queue();
        return false;
    }
    virtio::taken_from_guest(request.chain);
    if (armed_) {
        queue_->suppress_kicks();
        armed_ = false;
    }
    request.use = uses_.back().get();
    request.run = run_;
    ++request.use->in_flight;
    ++in_flight_;
    visit_bytes_ += request.chain.readable_bytes + request.chain.writable_bytes;
    stats_.requests.add();
    request.present();
    // The reply goes where the driver wrote last; its line comes over while the request is decoded.
    if (!request.chain.writable.empty()) {
        last_reply_ = request.chain.writable.front().iov_base;
        virtio::prefetch_to_write(last_reply_);
    }
    if (!request.chain.readable.empty()) last_request_ = request.chain.readable.front().iov_base;
    sink_.handle(request);
    return true;
}

rt::Source::Visit QueuePort::sweep(const rt::VisitBudget& budget) {
    // What others have completed since the visit before goes out with this one.
    if (!serves() || !has_room() || !queue_->has_work()) {
        flush();
        busy_ = false;
        return Visit::idle;
    }
    if (!std::exchange(busy_, true)) expect();
    std::uint32_t served = 0;
    std::uint32_t unpublished = 0;
    std::uint64_t published = rt::ticks();
    visit_bytes_ = 0;
    while (serve_one()) {
        ++served;
        // An empty ring is found out first, and before a request object is taken for it: where each queue has
        // one request outstanding, every second look is at an empty ring.
        if (!queue_ || !queue_->has_work()) break;
        if (served >= budget.requests || visit_bytes_ >= budget.bytes || !serves() || !has_room()) break;
        // A driver that polls can refill the ring while the rest is served; one that sleeps is woken once, at
        // the end.
        if (++unpublished >= kServedPerPublication || rt::ticks() - published > kTicksPerPublication) {
            publish();
            unpublished = 0;
            published = rt::ticks();
        }
    }
    flush();
    if (served == 0) return Visit::idle;
    stats_.visits_with_work.add();
    return Visit::worked;
}

// A driver uses its places again, most of all where it has one request outstanding.  What was guessed wrong
// costs a line that nobody needed.
void QueuePort::expect() const noexcept {
    queue_->expect();
    virtio::prefetch_to_read(last_request_);
    virtio::prefetch_to_write(last_reply_);
}

bool QueuePort::arm() {
    if (!enabled_ || !accepting_ || broken_) return false;
    // A request that ends makes room; the worker is awake then, and sweeps.
    if (!has_room()) return false;
    if (!kick_) return true; // a front end without a kick descriptor asks to be polled
    if (armed_) return false;
    armed_ = true;
    return queue_->enable_kicks();
}

void QueuePort::publish() {
    if (!staged_ || broken_) return;
    staged_ = false;
    signal_due_ |= queue_->publish();
}

void QueuePort::flush() {
    publish();
    if (!std::exchange(signal_due_, false) || !call_) return;
    stats_.signals.add();
    signal_eventfd(call_);
}

void QueuePort::break_queue() {
    if (broken_) return;
    flush(); // what was answered before the break is the guest's
    broken_ = true;
    if (complaints_ < kComplaintsMax) {
        log::error("queue {} is broken and stays so until it is reset: {}", index_, queue_->reason());
        if (++complaints_ == kComplaintsMax) log::error("queue {}: no more is said when it breaks", index_);
    }
    if (error_) signal_eventfd(error_);
}

} // namespace viaduct::transport
