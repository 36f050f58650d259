// SPDX-License-Identifier: Apache-2.0
#include "transport/fuse_dev/reader.h"

#include "base/log.h"
#include "fuse/protocol.h"

#include <algorithm>
#include <cstring>
#include <sys/uio.h>
#include <utility>

namespace viaduct::transport {
namespace {

// So many in a row, and requests queue up: another reader is worth what it costs to wake it.
constexpr std::uint32_t kQueuedMin = 4;
// A request that moved more than this has touched pages that are given back, but for so many requests.
constexpr std::size_t kLargeBytes = 64U << 10U;
constexpr std::size_t kLargeKeptMax = 16;
// A poll-based ring tells nothing while its worker is busy with other things: so often it is looked without.
constexpr std::uint32_t kSweepsPerLook = 32;

} // namespace

void Reader::Request::present(std::size_t request_bytes) noexcept {
    in_segment_ = {buffer->in_room().iov_base, request_bytes};
    out_segments_[0] = {out_header_, sizeof out_header_};
    out_segments_[1] = buffer->out_room(request_bytes);
    in_ = {&in_segment_, 1};
    out_ = out_segments_;
    large = large || request_bytes > kLargeBytes;

    // What the kernel gives is as it says; whether it is right is the session's to check.
    struct {
        fuse_in_header header;
        fuse_write_in write;
    } structs{};
    std::memcpy(&structs, in_segment_.iov_base, std::min(sizeof structs, request_bytes));
    write_back = structs.header.opcode == FUSE_WRITE && (structs.write.write_flags & FUSE_WRITE_CACHE) != 0;
}

bool Reader::Request::failed(std::size_t reply_bytes) const noexcept {
    if (reply_bytes < sizeof(fuse_out_header)) return true;
    fuse_out_header header{};
    std::memcpy(&header, out_header_, sizeof header);
    return header.error != 0;
}

Segments Reader::Request::reply(std::size_t reply_bytes) noexcept {
    static_assert(sizeof out_header_ == sizeof(fuse_out_header));
    ASSERT(reply_bytes >= sizeof out_header_);
    const std::size_t body_bytes = reply_bytes - sizeof out_header_;
    ASSERT(body_bytes <= out_segments_[1].iov_len);
    large = large || body_bytes > kLargeBytes;
    out_segments_[1].iov_len = body_bytes;
    return Segments{out_segments_}.first(body_bytes > 0 ? 2 : 1);
}

Reader::Reader(Fd device, rt::Worker& worker, fuse::RequestSink& sink, const ReaderOptions& options)
    : device_(std::move(device)), worker_(worker), sink_(sink), options_(options) {
    if (options_.readv == nullptr) options_.readv = ::readv;
    if (options_.writev == nullptr) options_.writev = ::writev;
}

Reader::~Reader() {
    ASSERT(!started_);
    ASSERT(in_flight_ == 0);
}

Status Reader::start() {
    ASSERT(worker_.is_current());
    ASSERT(!started_);
    if (options_.watches) TRY_STATUS(worker_.ring().watch(device_.get(), *this));
    started_ = true;
    ready_ = options_.watches; // what came before the watch
    reading_.enter();
    worker_.add(*this);
    return {};
}

void Reader::stop() {
    ASSERT(worker_.is_current());
    if (!started_) return;
    started_ = false;
    ready_ = false;
    worker_.remove(*this);
    if (options_.watches) worker_.ring().unwatch(device_.get(), *this);
    if (!connection_over_) reading_.leave();
}

void Reader::close() {
    stop();
    device_.reset();
}

void Reader::end_connection() noexcept {
    if (std::exchange(connection_over_, true)) return;
    ready_ = false;
    reading_.leave();
}

void Reader::on_ready() {
    stats_.wakeups.add();
    ready_ = !connection_over_;
}

void Reader::invite() {
    // Relaxed: the message itself orders what comes with it, and an invitation that comes a moment too late
    // to be new is made again by the next requests that queue up.
    if (!invited_.exchange(true, std::memory_order_relaxed)) worker_.post(invitation_);
}

void Reader::accept_invitation() {
    ready_ = started_ && !connection_over_;
    if (!ready_) invited_.store(false, std::memory_order_relaxed);
}

Reader::Request* Reader::take_request() {
    if (free_.empty()) {
        auto buffer = RequestBuffer::make(options_.payload_bytes_max);
        if (!buffer) return nullptr;
        requests_.push_back(std::make_unique<Request>(*this, std::move(buffer)));
        return requests_.back().get();
    }
    Request* const request = free_.back();
    free_.pop_back();
    if (request->large) --large_kept_;
    return request;
}

void Reader::recycle(Request& request) {
    if (request.large && large_kept_ == kLargeKeptMax) {
        request.buffer->forget();
        request.large = false;
    }
    if (request.large) ++large_kept_;
    free_.push_back(&request);
}

Reader::Took Reader::take_one(std::uint64_t& bytes) {
    Request* const request = take_request();
    if (request == nullptr) {
        // Without memory for another one, those under way end first.
        if (in_flight_ == 0) log::error("no memory for a request of the mount");
        return Took::nothing;
    }
    const iovec room = request->buffer->in_room();
    ssize_t got = -1;
    do {
        got = options_.readv(device_.get(), &room, 1);
        // ENOENT: the request was interrupted before it could be read.
    } while (got < 0 && (errno == EINTR || errno == ENOENT));
    if (got <= 0) {
        const int error = got < 0 ? errno : ENODEV;
        recycle(*request);
        if (error == EAGAIN) return Took::nothing;
        // ENODEV: unmounted; ECONNABORTED: aborted.
        if (error != ENODEV && error != ECONNABORTED) log::error("cannot read requests: {}", Errno{error});
        return Took::over;
    }
    bytes += static_cast<std::uint64_t>(got);
    ++in_flight_;
    stats_.requests.add();
    request->present(static_cast<std::size_t>(got));
    if (request->write_back) {
        ++write_backs_in_flight_;
        stats_.write_backs.add();
    }
    sink_.handle(*request);
    return Took::request;
}

rt::Source::Visit Reader::sweep(const rt::VisitBudget& budget) {
    std::uint32_t served = 0;
    std::uint64_t bytes = 0;
    if (!ready_ && options_.watches && !connection_over_ && ++idle_sweeps_ % kSweepsPerLook == 0)
        ready_ = true;
    while (ready_ && served < budget.requests && bytes < budget.bytes &&
           in_flight_ < options_.in_flight_max) {
        const Took took = take_one(bytes);
        if (took == Took::request) {
            if (++served == kQueuedMin && next_ != nullptr) {
                stats_.invitations.add();
                next_->invite();
            }
            continue;
        }
        ready_ = false;
        invited_.store(false, std::memory_order_relaxed);
        if (took == Took::over) end_connection();
    }
    return served > 0 ? Visit::worked : Visit::idle;
}

void Reader::answer(Request& request, std::size_t reply_bytes) {
    ASSERT(worker_.is_current());
    ASSERT(in_flight_ > 0);
    if (reply_bytes > 0 && device_) {
        const Segments reply = request.reply(reply_bytes);
        ssize_t put = -1;
        do {
            put = options_.writev(device_.get(), reply.data(), static_cast<int>(reply.size()));
        } while (put < 0 && errno == EINTR);
        if (put < 0) {
            stats_.unanswered.add();
            // ENOENT: the request was interrupted, or its connection aborted.
            if (errno != ENOENT && errno != ENODEV && !std::exchange(complained_, true))
                log::error("the kernel refuses the reply to a request: {}", Errno{errno});
        }
    }
    if (request.write_back) {
        --write_backs_in_flight_;
        if (request.failed(reply_bytes)) stats_.write_backs_failed.add();
    }
    recycle(request);
    --in_flight_;
    if (drain_timer_ != nullptr && waited_for(drain_write_backs_only_) == 0)
        worker_.ring().cancel(*drain_timer_);
}

// The timer is what is waited for; the request that is the last to end cancels it.
rt::Task<bool> Reader::wait_for(std::chrono::nanoseconds timeout, bool write_backs_only) {
    ASSERT(worker_.is_current());
    ASSERT(drain_timer_ == nullptr);
    if (waited_for(write_backs_only) == 0) co_return true;
    rt::Operation timer = worker_.ring().sleep(static_cast<std::uint64_t>(timeout.count()));
    drain_timer_ = &timer;
    drain_write_backs_only_ = write_backs_only;
    co_await timer;
    drain_timer_ = nullptr;
    co_return waited_for(write_backs_only) == 0;
}

} // namespace viaduct::transport
