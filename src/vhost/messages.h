// SPDX-License-Identifier: Apache-2.0
//
// vhost-user messages: numbers, wire structs, bounds.
//
// Native byte order.  Pure: bytes in, values out.
#pragma once

#include "base/fd.h"
#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace viaduct::vhost {

// What the front end asks.  Numbers that are not here are answered as unknown.
enum class Request : std::uint32_t {
    get_features = 1,
    set_features = 2,
    set_owner = 3,
    reset_owner = 4,
    set_mem_table = 5,
    set_log_base = 6,
    set_log_fd = 7,
    set_vring_num = 8,
    set_vring_addr = 9,
    set_vring_base = 10,
    get_vring_base = 11,
    set_vring_kick = 12,
    set_vring_call = 13,
    set_vring_err = 14,
    get_protocol_features = 15,
    set_protocol_features = 16,
    get_queue_num = 17,
    set_vring_enable = 18,
    send_rarp = 19,
    net_set_mtu = 20,
    set_backend_req_fd = 21,
    iotlb_msg = 22,
    set_vring_endian = 23,
    get_config = 24,
    set_config = 25,
    create_crypto_session = 26,
    close_crypto_session = 27,
    postcopy_advise = 28,
    postcopy_listen = 29,
    postcopy_end = 30,
    get_inflight_fd = 31,
    set_inflight_fd = 32,
    gpu_set_socket = 33,
    reset_device = 34,
    vring_kick = 35,
    get_max_mem_slots = 36,
    add_mem_reg = 37,
    rem_mem_reg = 38,
    set_status = 39,
    get_status = 40,
    get_shared_object = 41,
    set_device_state_fd = 42,
    check_device_state = 43,
};

// "SET_VRING_KICK"; "request 77" for numbers without a name.
std::string name_of(Request request);

// A feature bit that means: protocol features are negotiated.  It is vhost-user's, not the device's.
inline constexpr std::uint64_t kFeatureProtocolFeatures = 1ULL << 30;

inline constexpr std::uint64_t kProtocolMq = 1ULL << 0;
inline constexpr std::uint64_t kProtocolReplyAck = 1ULL << 3;
inline constexpr std::uint64_t kProtocolBackendReq = 1ULL << 5;
inline constexpr std::uint64_t kProtocolConfig = 1ULL << 9;
inline constexpr std::uint64_t kProtocolBackendSendFd = 1ULL << 10;
inline constexpr std::uint64_t kProtocolResetDevice = 1ULL << 13;
inline constexpr std::uint64_t kProtocolConfigureMemSlots = 1ULL << 15;

struct Header {
    std::uint32_t request;
    std::uint32_t flags;
    std::uint32_t size; // of the payload, bytes
};
static_assert(sizeof(Header) == 12);

inline constexpr std::uint32_t kFlagVersionMask = 0x3;
inline constexpr std::uint32_t kFlagVersion = 0x1;
inline constexpr std::uint32_t kFlagReply = 1U << 2;
inline constexpr std::uint32_t kFlagNeedReply = 1U << 3;

// The largest message in use is SET_MEM_TABLE with 264 bytes, or a GET_CONFIG of 268; a size beyond this is a
// lie, and what follows it cannot be found.
inline constexpr std::uint32_t kPayloadBytesMax = 4096;
// Descriptors that one message may carry: those of a full SET_MEM_TABLE.
inline constexpr std::size_t kFdsPerMessageMax = 8;
inline constexpr std::size_t kTableRegionsMax = 8;
// Regions that ADD_MEM_REG may make: what KVM and QEMU use at most.
inline constexpr std::size_t kMemorySlotsMax = 509;
inline constexpr std::uint32_t kConfigBytesMax = 256;

struct VringState {
    std::uint32_t index;
    std::uint32_t num;
};
static_assert(sizeof(VringState) == 8);

struct VringAddress {
    std::uint32_t index;
    std::uint32_t flags;
    std::uint64_t descriptor;
    std::uint64_t used;
    std::uint64_t available;
    std::uint64_t log;
};
static_assert(sizeof(VringAddress) == 40);

// Payload of SET_VRING_KICK, CALL and ERR: bits 0-7 the index, bit 8 set when no descriptor comes with it.
inline constexpr std::uint64_t kVringIndexMask = 0xff;
inline constexpr std::uint64_t kVringNoFd = 1ULL << 8;

struct WireRegion {
    std::uint64_t guest_address;
    std::uint64_t bytes;
    std::uint64_t user_address;
    std::uint64_t mmap_offset;
};
static_assert(sizeof(WireRegion) == 32);

// ADD_MEM_REG, REM_MEM_REG.
struct SingleRegion {
    std::uint64_t padding;
    WireRegion region;
};
static_assert(sizeof(SingleRegion) == 40);

// SET_MEM_TABLE: this, then `count` regions.
struct TableHeader {
    std::uint32_t count;
    std::uint32_t padding;
};
static_assert(sizeof(TableHeader) == 8);

// GET_CONFIG, SET_CONFIG: this, then `size` bytes.
struct ConfigHeader {
    std::uint32_t offset;
    std::uint32_t size;
    std::uint32_t flags;
};
static_assert(sizeof(ConfigHeader) == 12);

// A message as it came: payload of any size up to the bound, and the descriptors that were sent with it.
struct Message {
    Header header{};
    std::vector<std::byte> payload;
    std::vector<Fd> fds;
    std::size_t surplus_fds = 0; // came beyond kFdsPerMessageMax and were closed

    Request request() const noexcept { return static_cast<Request>(header.request); }
    bool need_reply() const noexcept { return (header.flags & kFlagNeedReply) != 0; }
    std::size_t fd_count() const noexcept { return fds.size() + surplus_fds; }
};

// A payload that is exactly a T.  EINVAL: another size.
template <class T>
    requires std::is_trivially_copyable_v<T>
Result<T> decode(std::span<const std::byte> payload) noexcept {
    if (payload.size() != sizeof(T)) return fail(EINVAL);
    T value;
    std::memcpy(&value, payload.data(), sizeof value);
    return value;
}

template <class T>
    requires std::is_trivially_copyable_v<T>
std::vector<std::byte> encode(const T& value) {
    const auto bytes = std::as_bytes(std::span{&value, 1});
    return {bytes.begin(), bytes.end()};
}

// The regions of a SET_MEM_TABLE payload.  EINVAL: more than the table holds, or than the payload has.
Result<std::vector<WireRegion>> decode_table(std::span<const std::byte> payload);

// A message for the wire.  `flags` without the version.
std::vector<std::byte> frame(Request request, std::uint32_t flags, std::span<const std::byte> payload);

} // namespace viaduct::vhost
