// SPDX-License-Identifier: Apache-2.0
//
// Session: FUSE state of one client (a device or a mount), from INIT to DESTROY, over any number of workers.
//
// A request is served on the worker that hands it in, and answered there: in the same call where nothing has
// to wait, from a coroutine of that worker otherwise.  Serving takes no lock and writes no line that workers
// share.
#pragma once

#include "fs/file_system.h"
#include "fuse/init.h"
#include "fuse/raw_request.h"
#include "rt/slots.h"
#include "rt/task.h"
#include "rt/worker.h"
#include "session/lane.h"

#include <array>
#include <atomic>
#include <memory>

namespace viaduct::session {

struct SessionOptions {
    fuse::InitWishes wishes;
    // false: ENOSYS to every request about extended attributes, so that the client stops asking.
    bool xattr = true;
    // How long the client may believe that a name does not exist; 0: it asks again.
    fs::Validity negative_valid{};
};

class Session final : public fuse::RequestSink {
public:
    static constexpr std::size_t kWorkersMax = 1024;

    // `fs` outlives the session, and so do the workers that are attached.
    Session(fs::FileSystem& fs, const SessionOptions& options);
    // Every request has been completed, and end() was awaited since the last one.
    ~Session();
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    // Control thread.  `worker` may call handle() from now on, until the session is gone; repeating it is
    // harmless.  The first one attached also leads INIT and DESTROY.
    void attach_worker(rt::Worker& worker);

    // On an attached worker.
    void handle(fuse::RawRequest& request) override;
    void cancel(const fuse::RequestChoice& chosen) override;

    // On any worker: waits for the requests under way, drops every lookup count and handle, and goes back to
    // before INIT.  For a reset or a client that is gone; the caller hands in nothing new meanwhile.
    rt::Task<void> end();
    // Any thread: requests that wait for a lock of another end with ENOLCK.  Before waiting for all that are
    // under way, when nothing new is handed in.
    void end_lock_waits() { fs_.end_lock_waits(); }

    // Any thread; values may be a little old.
    bool running() const noexcept { return state_.load(std::memory_order_acquire) == State::running; }
    std::uint32_t generation() const noexcept { return generation_.load(std::memory_order_relaxed); }
    std::uint64_t requests() const noexcept;
    // Of one opcode (fuse::kOpcodeCount: all that have no number below it).
    std::uint64_t requests_of(std::uint32_t opcode) const noexcept;
    // What one worker did for this session; nullptr for a worker that is not attached.
    const LaneCounters* counters_on(const rt::Worker& worker) const noexcept;

    // What the present client and we have in common.  Between INIT's answer and the end of the session.
    const Negotiated& negotiated() const noexcept { return negotiated_; }

private:
    enum class State : std::uint32_t {
        idle, // no INIT yet, or ended
        running,
        ending, // waiting for requests under way
    };

    Lane& lane_here() noexcept;
    Lane* find_lane(const rt::Worker& worker) const noexcept;
    std::size_t lane_count() const noexcept { return lane_count_.load(std::memory_order_acquire); }
    rt::Worker& home() const noexcept { return lanes_[0]->worker; }

    void serve_session(Lane& lane, Call& call, bool running);
    void wait_for_room(Lane& lane, Call& call, Handler handler);
    rt::Task<void> serve_when_there_is_room(Lane& lane, Call& call, Handler handler);
    rt::Task<void> serve_init(Lane& lane, Call& call);
    rt::Task<void> serve_destroy(Lane& lane, Call& call);
    rt::Task<void> serve_interrupt(Lane& lane, Call& call);
    rt::Task<void> drain();
    Result<fuse::InitReply> begin(const fuse_init_in& offer);

    fs::FileSystem& fs_;
    const SessionOptions options_;
    const std::uint64_t id_; // never reused, so that a worker's memory of a dead session matches no other

    // The control thread appends; everyone reads up to lane_count_.
    std::array<std::unique_ptr<Lane>, kWorkersMax> lanes_;
    std::atomic<std::size_t> lane_count_{0};

    // Written on home(), by whoever holds `turn_`.  Workers read state_ with each request; what it guards
    // (negotiated_) changes only while it is not `running` and no worker has a request under way.
    sync::Shared<State> state_{State::idle};
    sync::Shared<std::uint32_t> generation_{0};
    Negotiated negotiated_;
    std::uint32_t inits_refused_ = 0; // a client cannot fill the log with them
    rt::Slots turn_{1};
};

} // namespace viaduct::session
