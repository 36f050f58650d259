// SPDX-License-Identifier: Apache-2.0
#include "vhost/front_end.h"

#include "vhost/text.h"

#include <cstring>
#include <sys/socket.h>
#include <sys/un.h>

namespace viaduct::vhost {
namespace {

WireRegion wire_of(const RegionDescription& region) {
    return {.guest_address = region.guest_address,
            .bytes = region.bytes,
            .user_address = region.user_address,
            .mmap_offset = region.mmap_offset};
}

const char* hint_for(Errno error) {
    switch (error.value()) {
    case ENOENT:
        return "is the daemon running?";
    case ECONNREFUSED:
        return "nobody listens there any more; start the daemon again";
    case EACCES:
        return "this user may not use that socket";
    case EPROTOTYPE:
        return "it is not a stream socket";
    case EAGAIN:
        return "the daemon does not accept connections";
    default:
        return "";
    }
}

} // namespace

Outcome<FrontEnd> FrontEnd::connect(const std::string& path, std::chrono::milliseconds timeout) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    if (path.empty() || path.size() >= sizeof address.sun_path)
        return usage_failure(sentence("socket path \"{}\": 1 to {} bytes are possible for a Unix socket",
                                      path, sizeof address.sun_path - 1));
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    Fd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (!socket) return failure("socket path " + path, Errno{errno});
    // Waits only where the daemon's queue of connections is full: that long, no longer.
    const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = timeout.count() % 1000 * 1000};
    if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0)
        return failure("socket path " + path, Errno{errno});
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
        const Errno error{errno};
        return failure("socket path " + path, error, hint_for(error));
    }
    return FrontEnd{std::move(socket), timeout};
}

FrontEnd FrontEnd::adopt(Fd socket, std::chrono::milliseconds timeout) {
    return FrontEnd{std::move(socket), timeout};
}

Status FrontEnd::send_raw(std::span<const std::byte> bytes, std::span<const int> fds) {
    return socket_.send_until(bytes, fds, deadline());
}

Status FrontEnd::send_request(Request request, std::span<const std::byte> payload, std::span<const int> fds,
                              std::uint32_t flags) {
    return send_raw(frame(request, flags, payload), fds);
}

Result<Message> FrontEnd::receive() {
    TRY(auto message, socket_.receive_until(deadline()));
    if (!message) return fail(EPIPE);
    return *std::move(message);
}

Status FrontEnd::tell(Request request, std::span<const std::byte> payload, std::span<const int> fds) {
    const bool acknowledged = (protocol_features_ & kProtocolReplyAck) != 0;
    TRY_STATUS(send_request(request, payload, fds, acknowledged ? kFlagNeedReply : 0));
    if (!acknowledged) return {};
    TRY(const Message reply, receive());
    const auto verdict = decode<std::uint64_t>(reply.payload);
    if (reply.request() != request || (reply.header.flags & kFlagReply) == 0 || !verdict) return fail(EPROTO);
    if (*verdict != 0) return fail(EREMOTEIO);
    return {};
}

Result<std::vector<std::byte>> FrontEnd::ask(Request request, std::span<const std::byte> payload) {
    TRY_STATUS(send_request(request, payload));
    TRY(Message reply, receive());
    if (reply.request() != request || (reply.header.flags & kFlagReply) == 0) return fail(EPROTO);
    return std::move(reply.payload);
}

Result<std::uint64_t> FrontEnd::ask_number(Request request) {
    TRY(const auto payload, ask(request));
    const auto value = decode<std::uint64_t>(payload);
    if (!value) return fail(EPROTO);
    return *value;
}

Status FrontEnd::negotiate(std::uint64_t wanted, std::uint64_t protocol_wanted) {
    TRY(const std::uint64_t offered, get_features());
    std::uint64_t taken = offered & wanted;
    if ((offered & kFeatureProtocolFeatures) != 0 && protocol_wanted != 0) {
        constexpr std::uint64_t kKnown = kProtocolMq | kProtocolReplyAck | kProtocolConfig |
                                         kProtocolResetDevice | kProtocolConfigureMemSlots;
        TRY(const std::uint64_t protocol_offered, get_protocol_features());
        TRY_STATUS(set_protocol_features(protocol_offered & protocol_wanted & kKnown));
        taken |= kFeatureProtocolFeatures;
    } else {
        taken &= ~kFeatureProtocolFeatures;
    }
    TRY_STATUS(set_owner());
    return set_features(taken);
}

Result<std::uint64_t> FrontEnd::get_features() {
    return ask_number(Request::get_features);
}

Status FrontEnd::set_features(std::uint64_t features) {
    TRY_STATUS(tell(Request::set_features, encode(features)));
    features_ = features;
    return {};
}

Result<std::uint64_t> FrontEnd::get_protocol_features() {
    return ask_number(Request::get_protocol_features);
}

Status FrontEnd::set_protocol_features(std::uint64_t features) {
    TRY_STATUS(tell(Request::set_protocol_features, encode(features)));
    protocol_features_ = features;
    return {};
}

Status FrontEnd::set_owner() {
    return tell(Request::set_owner);
}
Status FrontEnd::reset_owner() {
    return tell(Request::reset_owner);
}
Status FrontEnd::reset_device() {
    return tell(Request::reset_device);
}
Result<std::uint64_t> FrontEnd::get_queue_num() {
    return ask_number(Request::get_queue_num);
}
Status FrontEnd::set_backend_channel(int fd) {
    return tell(Request::set_backend_req_fd, {}, {{fd}});
}

Status FrontEnd::set_memory(std::span<const SharedRegion> regions) {
    if (regions.size() > kTableRegionsMax) return fail(EINVAL);
    std::vector<std::byte> payload =
        encode(TableHeader{.count = static_cast<std::uint32_t>(regions.size()), .padding = 0});
    std::vector<int> fds;
    for (const SharedRegion& region : regions) {
        const auto part = encode(wire_of(region.description));
        payload.insert(payload.end(), part.begin(), part.end());
        fds.push_back(region.fd);
    }
    return tell(Request::set_mem_table, payload, fds);
}

Result<std::uint64_t> FrontEnd::get_memory_slots() {
    return ask_number(Request::get_max_mem_slots);
}

Status FrontEnd::add_region(const SharedRegion& region) {
    const auto payload = encode(SingleRegion{.padding = 0, .region = wire_of(region.description)});
    return tell(Request::add_mem_reg, payload, {{region.fd}});
}

Status FrontEnd::remove_region(const RegionDescription& region) {
    return tell(Request::rem_mem_reg, encode(SingleRegion{.padding = 0, .region = wire_of(region)}));
}

Status FrontEnd::set_vring_num(std::uint32_t index, std::uint32_t size) {
    return tell(Request::set_vring_num, encode(VringState{.index = index, .num = size}));
}

Status FrontEnd::set_vring_base(std::uint32_t index, std::uint32_t base) {
    return tell(Request::set_vring_base, encode(VringState{.index = index, .num = base}));
}

Status FrontEnd::set_vring_address(std::uint32_t index, const RingAddresses& addresses) {
    return tell(Request::set_vring_addr, encode(VringAddress{.index = index,
                                                             .flags = addresses.flags,
                                                             .descriptor = addresses.descriptor,
                                                             .used = addresses.device,
                                                             .available = addresses.driver,
                                                             .log = addresses.log}));
}

Status FrontEnd::tell_event(Request request, std::uint32_t index, int fd) {
    const std::uint64_t payload = (index & kVringIndexMask) | (fd < 0 ? kVringNoFd : 0);
    const std::span<const int> fds{&fd, fd < 0 ? 0U : 1U};
    return tell(request, encode(payload), fds);
}

Status FrontEnd::set_vring_kick(std::uint32_t index, int fd) {
    return tell_event(Request::set_vring_kick, index, fd);
}
Status FrontEnd::set_vring_call(std::uint32_t index, int fd) {
    return tell_event(Request::set_vring_call, index, fd);
}
Status FrontEnd::set_vring_error(std::uint32_t index, int fd) {
    return tell_event(Request::set_vring_err, index, fd);
}

Status FrontEnd::set_vring_enable(std::uint32_t index, bool enable) {
    return tell(Request::set_vring_enable, encode(VringState{.index = index, .num = enable ? 1U : 0U}));
}

Result<std::uint32_t> FrontEnd::get_vring_base(std::uint32_t index) {
    TRY(const auto payload, ask(Request::get_vring_base, encode(VringState{.index = index, .num = 0})));
    const auto state = decode<VringState>(payload);
    if (!state || state->index != index) return fail(EPROTO);
    return state->num;
}

Result<std::vector<std::byte>> FrontEnd::get_config(std::uint32_t offset, std::uint32_t bytes) {
    if (bytes > kConfigBytesMax) return fail(EINVAL);
    auto payload = encode(ConfigHeader{.offset = offset, .size = bytes, .flags = 0});
    payload.resize(payload.size() + bytes);
    TRY(auto reply, ask(Request::get_config, payload));
    if (reply.empty()) return fail(EREMOTEIO);
    if (reply.size() != payload.size()) return fail(EPROTO);
    reply.erase(reply.begin(), reply.begin() + sizeof(ConfigHeader));
    return reply;
}

} // namespace viaduct::vhost
