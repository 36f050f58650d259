// SPDX-License-Identifier: Apache-2.0
//
// Requests about locks, for clients that have left them to us.
#include "session/answer.h"
#include "session/handlers.h"

#include <algorithm>
#include <fcntl.h>

namespace viaduct::session {
namespace {

// EINVAL: no lock; ENOSYS: a kind that the client keeps itself.
Result<fs::FileLock> lock_of(const Lane& lane, const fuse_lk_in& in) {
    const bool flock = (in.lk_flags & FUSE_LK_FLOCK) != 0;
    if ((lane.negotiated.flags & (flock ? FUSE_FLOCK_LOCKS : FUSE_POSIX_LOCKS)) == 0) return fail(ENOSYS);
    fs::FileLock lock{
        .kind = flock ? fs::LockKind::flock : fs::LockKind::posix, .owner = in.owner, .pid = in.lk.pid};
    switch (in.lk.type) {
    case F_RDLCK:
        lock.type = fs::LockType::shared;
        break;
    case F_WRLCK:
        lock.type = fs::LockType::exclusive;
        break;
    case F_UNLCK:
        break;
    default:
        return fail(EINVAL);
    }
    if (flock) return lock;
    if (in.lk.start > fs::LockRange::kEnd || in.lk.end < in.lk.start) return fail(EINVAL);
    lock.range = {.first = in.lk.start, .last = std::min(in.lk.end, fs::LockRange::kEnd)};
    return lock;
}

std::size_t encode_lock(Lane&, Call& call, const std::optional<fs::FileLock>& found) {
    fuse_lk_out out{};
    out.lk.type = F_UNLCK;
    if (found) {
        out.lk.type = found->type == fs::LockType::shared ? F_RDLCK : F_WRLCK;
        out.lk.start = found->range.first;
        out.lk.end = found->range.last;
        out.lk.pid = found->pid;
    }
    return call.reply(out);
}

void set_lock(Lane& lane, Call& call, bool wait) {
    const auto& in = call.in<fuse_lk_in>();
    const auto lock = lock_of(lane, in);
    if (!lock) return lane.refuse(call, lock.error());
    finish<encode_done>(lane, call, lane.fs.set_lock(call.node(), fs::HandleId{in.fh}, *lock, wait));
}

} // namespace

void serve_getlk(Lane& lane, Call& call) {
    const auto& in = call.in<fuse_lk_in>();
    const auto lock = lock_of(lane, in);
    if (!lock) return lane.refuse(call, lock.error());
    if (lock->kind == fs::LockKind::flock || lock->type == fs::LockType::none)
        return lane.refuse(call, EINVAL);
    answer<encode_lock>(lane, call, lane.fs.query_lock(call.node(), fs::HandleId{in.fh}, *lock));
}

void serve_setlk(Lane& lane, Call& call) {
    set_lock(lane, call, false);
}

void serve_setlkw(Lane& lane, Call& call) {
    set_lock(lane, call, true);
}

} // namespace viaduct::session
