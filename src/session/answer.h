// SPDX-License-Identifier: Apache-2.0
//
// From a FileSystem's result to the reply: at once where it is there, in a coroutine where it is not.
#pragma once

#include "rt/async.h"
#include "rt/task.h"
#include "session/call.h"
#include "session/lane.h"

#include <type_traits>
#include <utility>

namespace viaduct::session {

// Encode: std::size_t(Lane&, Call&, const T&), or without the last for void.  Gives the bytes of the reply.
template <auto Encode, class T> void answer(Lane& lane, Call& call, const Result<T>& result) {
    std::size_t bytes = 0;
    if (!result) [[unlikely]]
        bytes = call.reply_error(result.error());
    else if constexpr (std::is_void_v<T>)
        bytes = Encode(lane, call);
    else
        bytes = Encode(lane, call, *result);
    lane.complete(call, bytes);
}

// What has ended early tells it so; what has ended in spite of it has its result.
template <class T> bool was_cancelled(const Call& call, const Result<T>& result) noexcept {
    return call.cancellation.requested() && !result && result.error() == Errno{ECANCELED};
}

template <auto Encode, class T>
rt::Task<void> wait_and_answer(Lane& lane, Call& call, rt::Task<Result<T>> task) {
    lane.add_waiting(call);
    task.cancelled_by(call.cancellation);
    const auto result = co_await std::move(task);
    lane.remove_waiting(call);
    if (was_cancelled(call, result)) co_return lane.refuse(call, EINTR);
    answer<Encode, T>(lane, call, result);
}

template <auto Encode, class T> void finish(Lane& lane, Call& call, rt::Async<T>&& result) {
    if (result.ready()) [[likely]]
        return answer<Encode, T>(lane, call, result.value());
    lane.gate.spawn(wait_and_answer<Encode, T>(lane, call, std::move(result).task()));
}

// Encoders that several opcodes share.
std::size_t encode_done(Lane& lane, Call& call);
std::size_t encode_entry(Lane& lane, Call& call, const fs::Entry& entry);
std::size_t encode_attr(Lane& lane, Call& call, const fs::AttrReply& reply);
std::size_t encode_opened(Lane& lane, Call& call, const fs::Opened& opened);

} // namespace viaduct::session
