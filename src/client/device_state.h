// SPDX-License-Identifier: Apache-2.0
//
// What a public Device, its buffers and its file clients share, and how errors cross the border.
#pragma once

#include "base/result.h"
#include "driver/device.h"
#include "driver/fuse_client.h"

#include <viaduct/file_client.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

namespace viaduct::client {

// Owned by the Device, by each Buffer with memory, and by each FileClient.
struct DeviceState {
    std::unique_ptr<driver::Device> device;
    std::vector<std::uint32_t> queue_of_cpu; // as given, each queue is there; empty: the driver end's map
    std::chrono::milliseconds call_timeout{};
    std::atomic<std::uint32_t> read_bytes_max{kReadBytesMaxOfOldServers}; // of one READ; INIT may raise it

    // A kernel asks for 32 pages at most when INIT does not say more.
    static constexpr std::uint32_t kReadBytesMaxOfOldServers = 32 * 4096;

    std::uint32_t queue_of(std::uint32_t cpu) const noexcept;
    std::uint32_t queue_of_current_cpu() const noexcept;
    // Null: there is no such queue.
    driver::RequestQueue* queue(std::uint32_t index) const noexcept;
    // On the queue of the current CPU.
    driver::FuseClient fuse_client(const Caller& caller = {}) const;
};

inline std::error_code error_of(int error) noexcept {
    return {error, std::generic_category()};
}
inline std::error_code error_of(Errno error) noexcept {
    return error_of(error.value());
}
inline std::unexpected<std::error_code> refuse(int error) noexcept {
    return std::unexpected{error_of(error)};
}

// An internal result as a public one.
template <class T> Result<T> translated(viaduct::Result<T> result) {
    if (!result) return std::unexpected{error_of(result.error())};
    if constexpr (std::is_void_v<T>)
        return {};
    else
        return *std::move(result);
}

} // namespace viaduct::client
