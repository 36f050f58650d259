// SPDX-License-Identifier: Apache-2.0
//
// One FUSE call with memory of its own: put together, sent, waited for.
//
// A call that nobody waits for any more lives on until the queue has ended it, since the device may write to
// its memory until then.
#pragma once

#include "base/result.h"
#include "driver/background_limit.h"
#include "driver/dma_arena.h"
#include "driver/request.h"
#include "driver/request_queue.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace viaduct::driver {

struct CallOptions {
    std::uint32_t opcode = 0;
    std::uint64_t node = 0;
    std::uint32_t uid = 0;
    std::uint32_t gid = 0;
    std::uint32_t pid = 0;
    // What follows the header.
    std::vector<std::byte> body;
    // Room for what follows the reply's header; `no_reply`: no room at all, as for FORGET.
    std::size_t reply_bytes_max = 0;
    bool no_reply = false;
    bool background = false; // within the device's limit of background requests
    // Lengths of the descriptors; what is left after the last goes into one more.  Empty: the request in one,
    // the reply's header and its body in one each.
    std::vector<std::size_t> in_split;
    std::vector<std::size_t> out_split;
    // Set in the header; 0: what is right.
    std::uint64_t unique = 0;
    std::uint32_t length = 0;

    template <class T> CallOptions& add(const T& value) {
        const auto bytes = std::as_bytes(std::span{&value, 1});
        body.insert(body.end(), bytes.begin(), bytes.end());
        return *this;
    }
    CallOptions& add_bytes(std::span<const std::byte> bytes) {
        body.insert(body.end(), bytes.begin(), bytes.end());
        return *this;
    }
    // With the NUL that ends a name on the wire.
    CallOptions& add_name(std::string_view name) {
        add_bytes(std::as_bytes(std::span{name}));
        return add('\0');
    }
};

class Call final : public Request, public std::enable_shared_from_this<Call> {
public:
    // ENOMEM: the arena is full; EFAULT: a split that does not fit.
    static Result<std::shared_ptr<Call>> make(DmaArena& arena, const CallOptions& options,
                                              std::uint64_t unique);

    // Once.  ENOTCONN and what else RequestQueue::submit() says.
    Status submit(RequestQueue& queue);
    Status submit(RequestQueue& queue, BackgroundLimit& limit);
    // The caller is killed or does not want it any more: a call that waits its turn or is parked ends with
    // EINTR.  false: the device has it, or it has ended.
    bool withdraw();
    // A signal has come while the caller waits: INTERRUPT, without a reply, its unique that of the call with
    // bit 0 set.  Once for each call; nothing is sent for one that has ended, and one that the device has not
    // got is withdrawn.
    Status interrupt(DmaArena& arena, RequestQueue& hiprio);

    bool ended() const noexcept { return ended_.load(std::memory_order_acquire); }
    // Waits on the queue it was submitted to.  ETIMEDOUT; what done() was told; or the error in the reply.
    // Otherwise the reply's body, good as long as the call is.
    Result<std::span<const std::byte>> wait(Deadline deadline);
    // Of a call that has ended.
    Result<std::span<const std::byte>> reply() const;

    // The memory that the device sees, whatever has become of the call.
    std::span<std::byte> request_memory() const noexcept { return in_.bytes(); }
    std::span<std::byte> reply_memory() const noexcept { return out_.bytes(); }

private:
    Call() = default;
    Status submitted(Status status);
    void done(Result<std::uint32_t> reply_bytes) override;

    DmaBuffer in_;
    DmaBuffer out_;
    RequestQueue* queue_ = nullptr;
    BackgroundLimit* limit_ = nullptr;
    std::shared_ptr<Call> self_; // while the queue holds the call; its only owner besides the callers
    Result<std::uint32_t> reply_bytes_ = 0;
    std::atomic<bool> interrupted_{false};
    std::atomic<bool> ended_{false}; // the store publishes reply_bytes_
};

} // namespace viaduct::driver
