// SPDX-License-Identifier: Apache-2.0
#include "vhost/messages.h"

#include "base/assert.h"

#include <array>
#include <iterator>

namespace viaduct::vhost {
namespace {

constexpr std::array kNames = {
    "request 0",
    "GET_FEATURES",
    "SET_FEATURES",
    "SET_OWNER",
    "RESET_OWNER",
    "SET_MEM_TABLE",
    "SET_LOG_BASE",
    "SET_LOG_FD",
    "SET_VRING_NUM",
    "SET_VRING_ADDR",
    "SET_VRING_BASE",
    "GET_VRING_BASE",
    "SET_VRING_KICK",
    "SET_VRING_CALL",
    "SET_VRING_ERR",
    "GET_PROTOCOL_FEATURES",
    "SET_PROTOCOL_FEATURES",
    "GET_QUEUE_NUM",
    "SET_VRING_ENABLE",
    "SEND_RARP",
    "NET_SET_MTU",
    "SET_BACKEND_REQ_FD",
    "IOTLB_MSG",
    "SET_VRING_ENDIAN",
    "GET_CONFIG",
    "SET_CONFIG",
    "CREATE_CRYPTO_SESSION",
    "CLOSE_CRYPTO_SESSION",
    "POSTCOPY_ADVISE",
    "POSTCOPY_LISTEN",
    "POSTCOPY_END",
    "GET_INFLIGHT_FD",
    "SET_INFLIGHT_FD",
    "GPU_SET_SOCKET",
    "RESET_DEVICE",
    "VRING_KICK",
    "GET_MAX_MEM_SLOTS",
    "ADD_MEM_REG",
    "REM_MEM_REG",
    "SET_STATUS",
    "GET_STATUS",
    "GET_SHARED_OBJECT",
    "SET_DEVICE_STATE_FD",
    "CHECK_DEVICE_STATE",
};
static_assert(kNames.size() == static_cast<std::size_t>(Request::check_device_state) + 1);

} // namespace

std::string name_of(Request request) {
    const auto number = static_cast<std::uint32_t>(request);
    return number < kNames.size() ? kNames[number] : "request " + std::to_string(number);
}

Result<std::vector<WireRegion>> decode_table(std::span<const std::byte> payload) {
    if (payload.size() < sizeof(TableHeader)) return fail(EINVAL);
    TRY(const auto header, decode<TableHeader>(payload.first(sizeof(TableHeader))));
    if (header.count > kTableRegionsMax) return fail(EINVAL);
    const auto body = payload.subspan(sizeof(TableHeader));
    // Some front ends always send all eight places.
    if (body.size() < header.count * sizeof(WireRegion)) return fail(EINVAL);
    if (body.size() > kTableRegionsMax * sizeof(WireRegion)) return fail(EINVAL);
    std::vector<WireRegion> regions(header.count);
    if (!regions.empty()) std::memcpy(regions.data(), body.data(), regions.size() * sizeof(WireRegion));
    return regions;
}

std::vector<std::byte> frame(Request request, std::uint32_t flags, std::span<const std::byte> payload) {
    ASSERT(payload.size() <= kPayloadBytesMax);
    std::vector<std::byte> bytes = encode(Header{.request = static_cast<std::uint32_t>(request),
                                                 .flags = kFlagVersion | flags,
                                                 .size = static_cast<std::uint32_t>(payload.size())});
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return bytes;
}

} // namespace viaduct::vhost
