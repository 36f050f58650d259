// SPDX-License-Identifier: Apache-2.0
//
// Lane: what a session keeps on one worker.  Nothing in it is touched by another thread, but for counters,
// which others may read.
#pragma once

#include "base/sync.h"
#include "fs/file_system.h"
#include "fuse/opcodes.h"
#include "rt/gate.h"
#include "rt/worker.h"
#include "session/call.h"

#include <array>
#include <memory>
#include <vector>

namespace viaduct::session {

// What INIT settled.  Changes only while no request of the session is running.
struct Negotiated {
    fuse::Dialect dialect;
    std::uint32_t minor = 0;
    std::uint64_t flags = 0;
    bool submounts = false;
    fs::Validity negative_valid{}; // of a name that does not exist; 0: it is an error
};

struct LaneCounters {
    // By opcode; the last one counts all others.
    std::array<sync::Counter, fuse::kOpcodeCount + 1> requests;
    sync::Counter malformed;  // lengths that lied, too little room for the reply
    sync::Counter waited;     // requests that could not be answered in one pass
    sync::Counter waits_over; // of those that waited: as many as are not waiting any more
    sync::Counter interrupts; // INTERRUPTs that found their request waiting
    sync::Counter cancelled;  // requests that were called off while they waited, by whomever
};

class alignas(64) Lane {
public:
    Lane(rt::Worker& on, fs::FileSystem& file_system, const Negotiated& settled) noexcept
        : worker(on), fs(file_system), negotiated(settled) {}
    Lane(const Lane&) = delete;
    Lane& operator=(const Lane&) = delete;

    rt::Worker& worker;
    fs::FileSystem& fs;
    const Negotiated& negotiated;
    rt::Gate gate;        // requests that wait
    rt::Gate transitions; // INIT and DESTROY: they wait for the other gate
    LaneCounters counters;

    Call& take(fuse::RawRequest& raw) {
        if (free_ == nullptr) [[unlikely]]
            grow();
        Call& call = *free_;
        free_ = call.next;
        call.raw = &raw;
        return call;
    }

    // The end of a call: its memory is reused from here on.
    void complete(Call& call, std::size_t reply_bytes) {
        fuse::RawRequest* const raw = call.raw;
        call.give_back();
        call.next = free_;
        free_ = &call;
        raw->complete(reply_bytes);
    }
    // Completes without having served it.
    void refuse(Call& call, Errno error);
    void refuse(Call& call, int error) { refuse(call, Errno{error}); }

    // Waiting calls, so that INTERRUPT finds them.
    void add_waiting(Call& call) noexcept;
    void remove_waiting(Call& call) noexcept;
    // Calls the request off.  false: it does not wait here.
    bool interrupt(std::uint64_t unique);
    // Calls off the waiting requests that `chosen` says.
    void cancel(const fuse::RequestChoice& chosen);

private:
    void grow();
    void cancel(Call& call);

    Call* free_ = nullptr; // last used first: its memory is still in the cache
    Call* waiting_ = nullptr;
    std::vector<std::unique_ptr<Call>> calls_; // as many as were ever under way together
};

// Serves a request whose header and fixed struct have been checked and whose caller is set.
using Handler = void (*)(Lane& lane, Call& call);

} // namespace viaduct::session
