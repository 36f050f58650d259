// SPDX-License-Identifier: Apache-2.0
#include "session/lane.h"

namespace viaduct::session {

void Lane::grow() {
    calls_.push_back(std::make_unique<Call>());
    free_ = calls_.back().get();
}

void Lane::refuse(Call& call, Errno error) {
    const bool answered = call.request.has_header() && call.request.opcode().has_reply;
    complete(call, answered ? call.reply_error(error) : 0);
}

void Lane::add_waiting(Call& call) noexcept {
    call.cancellation.reset();
    call.previous = nullptr;
    call.next = waiting_;
    if (waiting_ != nullptr) waiting_->previous = &call;
    waiting_ = &call;
    counters.waited.add();
}

void Lane::remove_waiting(Call& call) noexcept {
    if (call.next != nullptr) call.next->previous = call.previous;
    if (call.previous != nullptr)
        call.previous->next = call.next;
    else
        waiting_ = call.next;
    counters.waits_over.add();
}

void Lane::cancel(Call& call) {
    if (call.cancellation.requested()) return;
    counters.cancelled.add();
    call.cancellation.request();
}

// What is called off ends later than in the call: the list stays as it is meanwhile.
void Lane::cancel(const fuse::RequestChoice& chosen) {
    for (Call* call = waiting_; call != nullptr; call = call->next)
        if (chosen(*call->raw)) cancel(*call);
}

bool Lane::interrupt(std::uint64_t unique) {
    for (Call* call = waiting_; call != nullptr; call = call->next) {
        if (call->unique() != unique) continue;
        counters.interrupts.add();
        cancel(*call);
        return true;
    }
    return false;
}

} // namespace viaduct::session
