// SPDX-License-Identifier: Apache-2.0
//
// Requests about nodes: lookup counts, attributes, and the file system as a whole.
#include "session/answer.h"
#include "session/handlers.h"
#include "session/wire.h"

#include <algorithm>

namespace viaduct::session {
namespace {

// More in one request would hold up everything else on the worker.  A client puts them in what it may write
// at once: 1 MiB takes 65536.
constexpr std::uint32_t kForgetsMax = 65536;

std::size_t encode_statx(Lane&, Call& call, const fs::AttrReply& reply) {
    return call.reply(to_statx(reply));
}

std::size_t encode_statfs(Lane&, Call& call, const fs::FsStat& stat) {
    return call.reply(to_wire(stat));
}

std::size_t encode_target(Lane&, Call& call, const std::string& target) {
    return fuse::reply_bytes(call.raw->out(), call.unique(), target.data(), target.size());
}

std::optional<fs::HandleId> handle_if(bool present, std::uint64_t fh) noexcept {
    if (!present) return std::nullopt;
    return fs::HandleId{fh};
}

// A name that is not there, as an entry without a node, which the client may keep.
void keep_absence(Result<fs::Entry>& found, fs::Validity valid) {
    if (!found && found.error() == Errno{ENOENT}) found = fs::Entry{.entry_valid = valid};
}

rt::Task<Result<fs::Entry>> with_absence(rt::Task<Result<fs::Entry>> lookup, fs::Validity valid) {
    auto found = co_await std::move(lookup);
    keep_absence(found, valid);
    co_return found;
}

} // namespace

void serve_lookup(Lane& lane, Call& call) {
    if (const Status taken = call.take_name(call.name); !taken) return lane.refuse(call, taken.error());
    auto found = lane.fs.lookup(call.caller, call.node(), *call.name);
    const fs::Validity valid = lane.negotiated.negative_valid;
    if (valid.count() > 0 && !found.ready())
        return finish<encode_entry>(lane, call,
                                    rt::Async<fs::Entry>{with_absence(std::move(found).task(), valid)});
    if (valid.count() > 0) keep_absence(found.value(), valid);
    finish<encode_entry>(lane, call, std::move(found));
}

void serve_forget(Lane& lane, Call& call) {
    lane.fs.forget(call.node(), call.in<fuse_forget_in>().nlookup);
    lane.complete(call, 0);
}

// The count was compared with the bytes that are there.  Those beyond the bound keep their lookup counts
// until the session ends.
void serve_batch_forget(Lane& lane, Call& call) {
    const std::uint32_t count = call.in<fuse_batch_forget_in>().count;
    if (count > kForgetsMax) lane.counters.malformed.add();
    fuse_forget_one one;
    for (std::uint32_t left = std::min(count, kForgetsMax); left > 0; --left) {
        if (!call.request.take(&one, sizeof one)) break;
        lane.fs.forget(fs::NodeId{one.nodeid}, one.nlookup);
    }
    lane.complete(call, 0);
}

void serve_getattr(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_getattr_in>();
    const auto handle = handle_if((in.getattr_flags & FUSE_GETATTR_FH) != 0, in.fh);
    finish<encode_attr>(lane, call, lane.fs.getattr(call.caller, call.node(), handle));
}

void serve_statx(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_statx_in>();
    const auto handle = handle_if((in.getattr_flags & FUSE_GETATTR_FH) != 0, in.fh);
    finish<encode_statx>(lane, call, lane.fs.getattr(call.caller, call.node(), handle));
}

void serve_setattr(Lane& lane, Call& call) {
    const auto change = from_wire(call.in<fuse_setattr_in>());
    if (!change) return lane.refuse(call, change.error());
    call.change = *change;
    finish<encode_attr>(lane, call, lane.fs.setattr(call.caller, call.node(), call.change));
}

void serve_readlink(Lane& lane, Call& call) {
    finish<encode_target>(lane, call, lane.fs.readlink(call.caller, call.node()));
}

void serve_statfs(Lane& lane, Call& call) {
    finish<encode_statfs>(lane, call, lane.fs.statfs(call.caller, call.node()));
}

void serve_syncfs(Lane& lane, Call& call) {
    finish<encode_done>(lane, call, lane.fs.syncfs(call.caller, call.node()));
}

void serve_access(Lane& lane, Call& call) {
    finish<encode_done>(lane, call, lane.fs.access(call.caller, call.node(), call.in<fuse_access_in>().mask));
}

} // namespace viaduct::session
