// SPDX-License-Identifier: Apache-2.0
#include "driver/call.h"

#include <cstring>

namespace viaduct::driver {
namespace {

Result<std::vector<iovec>> split(std::span<std::byte> memory, const std::vector<std::size_t>& lengths) {
    std::vector<iovec> segments;
    for (const std::size_t bytes : lengths) {
        if (bytes > memory.size()) return fail(EFAULT);
        segments.push_back({.iov_base = memory.data(), .iov_len = bytes});
        memory = memory.subspan(bytes);
    }
    if (!memory.empty()) segments.push_back({.iov_base = memory.data(), .iov_len = memory.size()});
    return segments;
}

} // namespace

Result<std::shared_ptr<Call>> Call::make(DmaArena& arena, const CallOptions& options, std::uint64_t unique) {
    std::shared_ptr<Call> call{new Call};
    const std::size_t in_bytes = sizeof(fuse_in_header) + options.body.size();
    TRY(call->in_, arena.allocate(in_bytes));
    const fuse_in_header header{.len = options.length != 0 ? options.length
                                                           : static_cast<std::uint32_t>(in_bytes),
                                .opcode = options.opcode,
                                .unique = options.unique != 0 ? options.unique : unique,
                                .nodeid = options.node,
                                .uid = options.uid,
                                .gid = options.gid,
                                .pid = options.pid};
    std::memcpy(call->in_.data(), &header, sizeof header);
    if (!options.body.empty())
        std::memcpy(call->in_.data() + sizeof header, options.body.data(), options.body.size());
    TRY(const auto in, split(call->in_.bytes(), options.in_split));

    std::vector<iovec> out;
    if (!options.no_reply) {
        TRY(call->out_, arena.allocate(sizeof(fuse_out_header) + options.reply_bytes_max));
        std::memset(call->out_.data(), 0, call->out_.size());
        const std::vector<std::size_t> header_alone{sizeof(fuse_out_header)};
        TRY(out, split(call->out_.bytes(), options.out_split.empty() ? header_alone : options.out_split));
    }
    TRY_STATUS(call->prepare(arena, in, out));
    return call;
}

Status Call::submit(RequestQueue& queue) {
    ASSERT(queue_ == nullptr);
    queue_ = &queue;
    self_ = shared_from_this();
    return submitted(queue.submit(*this));
}

Status Call::submit(RequestQueue& queue, BackgroundLimit& limit) {
    ASSERT(queue_ == nullptr);
    queue_ = &queue;
    limit_ = &limit;
    self_ = shared_from_this();
    return submitted(limit.submit(queue, *this));
}

// On an error done() is not called.
Status Call::submitted(Status status) {
    if (status) return status;
    reply_bytes_ = fail(status.error());
    ended_.store(true, std::memory_order_release);
    self_.reset();
    return status;
}

bool Call::withdraw() {
    ASSERT(queue_ != nullptr);
    return (limit_ != nullptr && limit_->withdraw(*this)) || queue_->withdraw(*this);
}

Status Call::interrupt(DmaArena& arena, RequestQueue& hiprio) {
    if (withdraw() || ended()) return {};
    if (interrupted_.exchange(true, std::memory_order_relaxed)) return {};
    CallOptions options{.opcode = FUSE_INTERRUPT};
    options.add(fuse_interrupt_in{.unique = unique()});
    options.no_reply = true;
    TRY(const auto sent, make(arena, options, unique() | 1));
    TRY_STATUS(sent->submit(hiprio));
    // It may be parked; a call that has ended meanwhile needs none.
    if (ended()) sent->withdraw();
    return {};
}

void Call::done(Result<std::uint32_t> reply_bytes) {
    const std::shared_ptr<Call> self = std::move(self_);
    reply_bytes_ = reply_bytes;
    // Release: reply_bytes_ before the flag.  Pairs with ended() and RequestQueue::wait_for().
    ended_.store(true, std::memory_order_release);
}

Result<std::span<const std::byte>> Call::wait(Deadline deadline) {
    ASSERT(queue_ != nullptr);
    if (!queue_->wait_for(ended_, deadline)) return fail(ETIMEDOUT);
    return reply();
}

Result<std::span<const std::byte>> Call::reply() const {
    ASSERT(ended());
    if (!reply_bytes_) return fail(reply_bytes_.error());
    if (reply_header().error != 0) return fail(-reply_header().error);
    if (*reply_bytes_ <= sizeof(fuse_out_header)) return std::span<const std::byte>{};
    return out_.bytes().first(*reply_bytes_).subspan(sizeof(fuse_out_header));
}

} // namespace viaduct::driver
