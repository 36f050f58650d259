// SPDX-License-Identifier: Apache-2.0
//
// Requests on open directories.
#include "session/answer.h"
#include "session/handlers.h"

namespace viaduct::session {
namespace {

std::size_t encode_dirents(Lane&, Call& call) {
    return fuse::reply_in_place(call.raw->out(), call.unique(), call.dirents.packed_bytes());
}

// Entries that were packed have given out lookup counts: they reach the client even when a later one fails.
// The failure comes back with the next request.  An empty reply means the end of the directory, so it is
// EINVAL (as getdents(2) has it) when the first entry found no room.
Result<void> outcome(const Call& call, const Result<void>& result) {
    if (call.dirents.packed_bytes() > 0) return {};
    if (result && call.dirents.full()) return fail(EINVAL);
    return result;
}

rt::Task<void> wait_for_dirents(Lane& lane, Call& call, rt::Task<Result<void>> task) {
    lane.add_waiting(call);
    task.cancelled_by(call.cancellation);
    auto result = co_await std::move(task);
    lane.remove_waiting(call);
    if (was_cancelled(call, result)) result = fail(EINTR);
    answer<encode_dirents, void>(lane, call, outcome(call, result));
}

void read_directory(Lane& lane, Call& call, bool plus) {
    const auto& in = call.in<fuse_read_in>();
    call.dirents.begin(call.raw->out(), plus, in.size, lane.negotiated.submounts);
    auto result = lane.fs.readdir(call.caller, fs::HandleId{in.fh}, in.offset, plus, call.dirents);
    if (result.ready()) return answer<encode_dirents, void>(lane, call, outcome(call, result.value()));
    lane.gate.spawn(wait_for_dirents(lane, call, std::move(result).task()));
}

} // namespace

void serve_opendir(Lane& lane, Call& call) {
    finish<encode_opened>(lane, call, lane.fs.opendir(call.caller, call.node()));
}

void serve_readdir(Lane& lane, Call& call) {
    read_directory(lane, call, false);
}

void serve_readdirplus(Lane& lane, Call& call) {
    read_directory(lane, call, true);
}

void serve_fsyncdir(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_fsync_in>();
    const bool data_only = (in.fsync_flags & FUSE_FSYNC_FDATASYNC) != 0;
    finish<encode_done>(lane, call, lane.fs.fsyncdir(call.caller, fs::HandleId{in.fh}, data_only));
}

void serve_releasedir(Lane& lane, Call& call) {
    finish<encode_done>(lane, call, lane.fs.releasedir(fs::HandleId{call.in<fuse_release_in>().fh}));
}

} // namespace viaduct::session
