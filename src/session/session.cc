// SPDX-License-Identifier: Apache-2.0
#include "session/session.h"

#include "base/assert.h"
#include "base/log.h"
#include "session/handlers.h"

#include <algorithm>

namespace viaduct::session {
namespace {

std::atomic<std::uint64_t> next_session_id{1};

// Which lane a worker's thread last used for a session.  Direct-mapped; a miss costs a walk over the workers.
struct RememberedLane {
    std::uint64_t session_id = 0;
    Lane* lane = nullptr;
};
constexpr std::size_t kRememberedCount = 64;
thread_local std::array<RememberedLane, kRememberedCount> remembered_lanes;

bool has_room(Segments out, std::size_t bytes) noexcept {
    for (const iovec& segment : out) {
        if (segment.iov_len >= bytes) return true;
        bytes -= segment.iov_len;
    }
    return bytes == 0;
}

constexpr std::uint32_t kInitComplaintsMax = 10;
// Before 7.4 an entry without a node was a mistake.
constexpr std::uint32_t kMinorOfAbsentEntries = 4;
constexpr std::uint64_t kLookForRoomNs = 1'000'000;
constexpr std::uint32_t kLooksForRoomMax = 2000;

// What the share was asked to keep and this client would not; nullptr: nothing.
constexpr const char* refusal(const fuse::InitWishes& wishes, std::uint64_t flags) noexcept {
    if (wishes.posix_acl && (flags & FUSE_POSIX_ACL) == 0)
        return wishes.dont_mask
                   ? "--posix-acl is given, and the client does not enforce ACLs; Linux does from 5.13 on"
                   : "--posix-acl is given, and no thread has a umask of its own here; does a seccomp "
                     "profile "
                     "forbid unshare?";
    if (wishes.security_context && (flags & FUSE_SECURITY_CTX) == 0)
        return "--security-label is given, and the client sends no labels; Linux does from 5.17 on";
    return nullptr;
}

constexpr bool is_xattr(const fuse::Opcode& opcode) noexcept {
    return opcode.group == fuse::OpcodeClass::attributes;
}

} // namespace

Session::Session(fs::FileSystem& fs, const SessionOptions& options)
    : fs_(fs), options_(options), id_(next_session_id.fetch_add(1, std::memory_order_relaxed)) {}

Session::~Session() {
    ASSERT(state_.load(std::memory_order_acquire) == State::idle);
}

void Session::attach_worker(rt::Worker& worker) {
    if (find_lane(worker) != nullptr) return;
    const std::size_t count = lane_count();
    ASSERT(count < kWorkersMax);
    lanes_[count] = std::make_unique<Lane>(worker, fs_, negotiated_);
    // Release: whoever sees the count sees the lane.
    lane_count_.store(count + 1, std::memory_order_release);
}

Lane* Session::find_lane(const rt::Worker& worker) const noexcept {
    const std::size_t count = lane_count();
    for (std::size_t index = 0; index < count; ++index) {
        if (&lanes_[index]->worker == &worker) return lanes_[index].get();
    }
    return nullptr;
}

Lane& Session::lane_here() noexcept {
    RememberedLane& remembered = remembered_lanes[id_ % kRememberedCount];
    if (remembered.session_id != id_) [[unlikely]] {
        const rt::Worker* const worker = rt::Worker::current();
        ASSERT(worker != nullptr);
        remembered = {.session_id = id_, .lane = find_lane(*worker)};
        ASSERT(remembered.lane != nullptr);
    }
    return *remembered.lane;
}

void Session::handle(fuse::RawRequest& raw) {
    Lane& lane = lane_here();
    Call& call = lane.take(raw);
    // Acquire: with `running` come the values INIT settled.
    const bool running = state_.load(std::memory_order_acquire) == State::running;
    const Status decoded = call.request.decode(raw.in(), running ? negotiated_.dialect : fuse::Dialect{});
    if (!call.request.has_header()) [[unlikely]] {
        lane.counters.malformed.add();
        return lane.complete(call, 0);
    }

    const fuse_in_header& header = call.request.header();
    const fuse::Opcode& opcode = call.request.opcode();
    lane.counters.requests[std::min<std::size_t>(header.opcode, fuse::kOpcodeCount)].add();
    if (!decoded) [[unlikely]] {
        if (decoded.error() != Errno{ENOSYS}) lane.counters.malformed.add();
        return lane.refuse(call, decoded.error());
    }
    // Asked before anything is done that an answer which does not fit would leave undone.
    if (opcode.has_reply && !has_room(raw.out(), fuse::kOutHeaderBytes + opcode.reply_bytes)) [[unlikely]] {
        lane.counters.malformed.add();
        return lane.refuse(call, EIO);
    }

    const Handler handler = handler_of(header.opcode);
    if (handler == nullptr) [[unlikely]]
        return serve_session(lane, call, running);
    if (!running) [[unlikely]]
        return lane.refuse(call, EIO);
    if (is_xattr(opcode) && !options_.xattr) return lane.refuse(call, ENOSYS);
    call.caller = {.uid = header.uid, .gid = header.gid, .pid = header.pid};
    if (opcode.gives_out && fs_.room_to_come()) [[unlikely]]
        return wait_for_room(lane, call, handler);
    handler(lane, call);
}

void Session::cancel(const fuse::RequestChoice& chosen) {
    lane_here().cancel(chosen);
}

void Session::wait_for_room(Lane& lane, Call& call, Handler handler) {
    auto task = serve_when_there_is_room(lane, call, handler);
    task.cancelled_by(call.cancellation);
    lane.gate.spawn(std::move(task));
}

// Records are freed when every worker has rested; one that gets no processor keeps them from it.  That a
// worker has rested is signalled to nobody, as that would cost each pass of each worker: so it is looked for
// now and then, and not for ever.
rt::Task<void> Session::serve_when_there_is_room(Lane& lane, Call& call, Handler handler) {
    lane.add_waiting(call);
    for (std::uint32_t look = 0; look < kLooksForRoomMax && fs_.room_to_come(); ++look) {
        if (co_await lane.worker.ring().sleep(kLookForRoomNs) == -ECANCELED) break;
        lane.worker.epoch().collect();
    }
    lane.remove_waiting(call);
    if (call.cancellation.requested()) co_return lane.refuse(call, EINTR);
    handler(lane, call);
}

void Session::serve_session(Lane& lane, Call& call, bool running) {
    switch (call.request.header().opcode) {
    case FUSE_INIT:
        return lane.transitions.spawn(serve_init(lane, call));
    case FUSE_DESTROY:
        return lane.transitions.spawn(serve_destroy(lane, call));
    case FUSE_INTERRUPT:
        if (!running) return lane.complete(call, 0);
        return lane.gate.spawn(serve_interrupt(lane, call));
    default:
        ASSERT(false);
    }
}

// On home(), holding the turn.
Result<fuse::InitReply> Session::begin(const fuse_init_in& offer) {
    const auto reply = fuse::negotiate(offer, options_.wishes);
    if (!reply || !reply->accepted) {
        if (inits_refused_ < kInitComplaintsMax) {
            ++inits_refused_;
            log::warn("INIT of protocol {}.{} refused: we speak {}.{}", offer.major, offer.minor,
                      fuse::kMajor, fuse::kMinor);
        }
        return reply;
    }
    if (const char* const reason = refusal(options_.wishes, reply->flags)) {
        if (inits_refused_ < kInitComplaintsMax) {
            ++inits_refused_;
            log::warn("INIT refused: {}", reason);
        }
        return fail(EPROTO);
    }
    negotiated_ = {.dialect = {.setxattr_ext = (reply->flags & FUSE_SETXATTR_EXT) != 0,
                               .security_context = (reply->flags & FUSE_SECURITY_CTX) != 0},
                   .minor = reply->minor,
                   .flags = reply->flags,
                   .submounts = (reply->flags & FUSE_SUBMOUNTS) != 0,
                   .negative_valid =
                       reply->minor < kMinorOfAbsentEntries ? fs::Validity{} : options_.negative_valid};
    fs_.begin_session(negotiated_.submounts);
    generation_.fetch_add(1, std::memory_order_relaxed);
    // Release: pairs with the load in handle().
    state_.store(State::running, std::memory_order_release);
    return reply;
}

rt::Task<void> Session::serve_init(Lane& lane, Call& call) {
    const fuse_init_in offer = call.in<fuse_init_in>();
    std::optional<Result<fuse::InitReply>> reply;
    co_await home().enter();
    {
        const auto turn = co_await turn_.acquire();
        // Another INIT: the client has started anew.
        co_await drain();
        reply = begin(offer);
    }
    co_await lane.worker.enter();
    const Result<fuse::InitReply>& settled = *reply;
    if (settled)
        lane.complete(call, fuse::reply_bytes(call.raw->out(), call.unique(), &settled->out, settled->bytes));
    else
        lane.refuse(call, settled.error());
}

rt::Task<void> Session::serve_destroy(Lane& lane, Call& call) {
    co_await end();
    lane.complete(call, call.reply_done());
}

// Completes its chain only when every worker was asked, so that a client has no more of them under way than
// its queues have places.
//
// A worker that does not know the request is asked again when it has swept its queues: INTERRUPT comes on
// another queue and may have overtaken it.  Not so on /dev/fuse, where the kernel sends INTERRUPT when the
// request has been read: the worker that read it hands it in before it takes our message.  So what is not
// found has been answered, and there is nothing to reply: EAGAIN would ask the kernel for another INTERRUPT.
rt::Task<void> Session::serve_interrupt(Lane& lane, Call& call) {
    const std::uint64_t unique = call.in<fuse_interrupt_in>().unique;
    const std::size_t count = lane_count();
    bool found = false;
    for (std::size_t index = 0; index < count && !found; ++index) {
        Lane& other = *lanes_[index];
        co_await other.worker.enter();
        found = other.interrupt(unique);
        if (found) break;
        co_await other.worker.yield();
        found = other.interrupt(unique);
    }
    co_await lane.worker.enter();
    lane.complete(call, 0);
}

// On home(), holding the turn.  Afterwards no request of the session runs anywhere, and the state is `idle`.
rt::Task<void> Session::drain() {
    if (state_.load(std::memory_order_acquire) != State::running) co_return;
    state_.store(State::ending, std::memory_order_seq_cst);
    const std::size_t count = lane_count();
    for (std::size_t index = 0; index < count; ++index) {
        Lane& lane = *lanes_[index];
        // A worker that saw `running` has finished that request, or it stands in the gate, when it takes this
        // message; the message also carries the new state to it.
        co_await lane.worker.enter();
        fs_.end_lock_waits();
        co_await lane.gate.empty();
    }
    co_await home().enter();
    fs_.end_session();
    state_.store(State::idle, std::memory_order_release);
}

rt::Task<void> Session::end() {
    if (lane_count() == 0) co_return;
    rt::Worker* const origin = rt::Worker::current();
    ASSERT(origin != nullptr);
    co_await home().enter();
    {
        const auto turn = co_await turn_.acquire();
        co_await drain();
    }
    co_await origin->enter();
}

std::uint64_t Session::requests() const noexcept {
    std::uint64_t sum = 0;
    for (std::uint32_t number = 0; number <= fuse::kOpcodeCount; ++number) sum += requests_of(number);
    return sum;
}

std::uint64_t Session::requests_of(std::uint32_t opcode) const noexcept {
    std::uint64_t sum = 0;
    const std::size_t count = lane_count();
    for (std::size_t index = 0; index < count; ++index) {
        if (opcode <= fuse::kOpcodeCount) sum += lanes_[index]->counters.requests[opcode].get();
    }
    return sum;
}

const LaneCounters* Session::counters_on(const rt::Worker& worker) const noexcept {
    const Lane* const lane = find_lane(worker);
    return lane == nullptr ? nullptr : &lane->counters;
}

} // namespace viaduct::session
