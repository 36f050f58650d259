// SPDX-License-Identifier: Apache-2.0
//
// The front end's side of a vhost-user connection: what a VMM or a driver says.
//
// Synchronous, on any one thread that is not a worker: each call ends within the timeout.  Errors of every
// call: ETIMEDOUT: no answer; EPIPE: the back end has left; EPROTO: an answer to something else; EREMOTEIO:
// the back end says that it failed.  After any but the last the connection is of no more use.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "vhost/memory_table.h"
#include "vhost/messages.h"
#include "vhost/socket.h"

#include <chrono>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace viaduct::vhost {

// A region to share: where the front end has it, and the file it is in.
struct SharedRegion {
    RegionDescription description;
    int fd = -1; // borrowed for the call
};

// Rings in the front end's addresses (RegionDescription::user_address).
struct RingAddresses {
    std::uint64_t descriptor = 0;
    std::uint64_t driver = 0; // split: available ring
    std::uint64_t device = 0; // split: used ring
    std::uint32_t flags = 0;
    std::uint64_t log = 0;
};

class FrontEnd {
public:
    // Longer than a device may take to end requests before it answers.
    static constexpr std::chrono::milliseconds kTimeout{20'000};

    static Outcome<FrontEnd> connect(const std::string& path, std::chrono::milliseconds timeout = kTimeout);
    static FrontEnd adopt(Fd socket, std::chrono::milliseconds timeout = kTimeout);

    // What a VMM does first: GET_FEATURES, protocol features, SET_OWNER, SET_FEATURES.  Of the features
    // offered those in `wanted` are taken; likewise for the protocol.
    Status negotiate(std::uint64_t wanted, std::uint64_t protocol_wanted = ~0ULL);
    // As negotiated; without vhost-user's own bit.
    std::uint64_t features() const noexcept { return features_ & ~kFeatureProtocolFeatures; }
    std::uint64_t protocol_features() const noexcept { return protocol_features_; }

    Result<std::uint64_t> get_features();
    Status set_features(std::uint64_t features); // as they are sent, vhost-user's own bit included
    Result<std::uint64_t> get_protocol_features();
    Status set_protocol_features(std::uint64_t features);
    Status set_owner();
    Status reset_owner();
    Status reset_device();
    Result<std::uint64_t> get_queue_num();
    Status set_backend_channel(int fd);

    Status set_memory(std::span<const SharedRegion> regions); // at most kTableRegionsMax
    Result<std::uint64_t> get_memory_slots();
    Status add_region(const SharedRegion& region);
    Status remove_region(const RegionDescription& region);

    Status set_vring_num(std::uint32_t index, std::uint32_t size);
    Status set_vring_base(std::uint32_t index, std::uint32_t base);
    Status set_vring_address(std::uint32_t index, const RingAddresses& addresses);
    Status set_vring_kick(std::uint32_t index, int fd); // -1: none, for all three
    Status set_vring_call(std::uint32_t index, int fd);
    Status set_vring_error(std::uint32_t index, int fd);
    Status set_vring_enable(std::uint32_t index, bool enable);
    // Stops the vring.
    Result<std::uint32_t> get_vring_base(std::uint32_t index);

    // EREMOTEIO: the device has no configuration there.
    Result<std::vector<std::byte>> get_config(std::uint32_t offset, std::uint32_t bytes);

    // For what an honest front end does not send.  No answer is waited for.
    Status send_raw(std::span<const std::byte> bytes, std::span<const int> fds = {});
    // A request with any payload and flags; no answer is waited for.
    Status send_request(Request request, std::span<const std::byte> payload, std::span<const int> fds = {},
                        std::uint32_t flags = 0);
    // The next message of the back end.  EPIPE: it has left.
    Result<Message> receive();

    // To watch for its end; messages go through this object.
    FdRef fd() const noexcept { return socket_.fd(); }

private:
    FrontEnd(Fd socket, std::chrono::milliseconds timeout) : socket_(std::move(socket)), timeout_(timeout) {}

    Deadline deadline() const { return std::chrono::steady_clock::now() + timeout_; }
    // Sends, and waits for the acknowledgement where that was negotiated.
    Status tell(Request request, std::span<const std::byte> payload = {}, std::span<const int> fds = {});
    // Sends and waits for the answer.
    Result<std::vector<std::byte>> ask(Request request, std::span<const std::byte> payload = {});
    Result<std::uint64_t> ask_number(Request request);
    Status tell_event(Request request, std::uint32_t index, int fd);

    MessageSocket socket_;
    std::chrono::milliseconds timeout_;
    std::uint64_t features_ = 0;
    std::uint64_t protocol_features_ = 0;
};

} // namespace viaduct::vhost
