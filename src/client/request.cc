// SPDX-License-Identifier: Apache-2.0
//
// Raw requests of the public Device.
#include "client/device_state.h"

#include <viaduct/device.h>

#include <optional>
#include <vector>

namespace viaduct::client {

struct Request::Flight final : driver::Request {
    Flight(Completion completion) noexcept : completion_(completion) {}

    // The caller may end this object in its function: nothing is touched afterwards.
    void done(viaduct::Result<std::uint32_t> reply_bytes) override {
        const Completion completion = completion_;
        completion.function(completion.context, translated(reply_bytes));
    }

    driver::RequestQueue* queue = nullptr; // of the last submit()

private:
    const Completion completion_;
};

Request::Request() noexcept = default;
Request::Request(Request&& other) noexcept = default;
Request& Request::operator=(Request&& other) noexcept = default;
Request::~Request() = default;

std::error_code Request::server_error() const noexcept {
    return flight_ ? error_of(-flight_->reply_header().error) : std::error_code{};
}

namespace {

struct Pieces {
    std::vector<iovec> segments;
    std::size_t bytes = 0;
};

// None: a piece is empty.
std::optional<Pieces> pieces_of(const std::vector<std::span<std::byte>>& spans) {
    Pieces pieces;
    for (const std::span<std::byte> span : spans) {
        if (span.empty()) return std::nullopt;
        pieces.segments.push_back({.iov_base = span.data(), .iov_len = span.size()});
        pieces.bytes += span.size();
    }
    return pieces;
}

} // namespace

Result<Request> Device::make_request(const RequestMemory& memory, Completion completion) {
    const auto in = pieces_of(memory.in);
    const auto out = pieces_of(memory.out);
    if (!in || !out || completion.function == nullptr) return refuse(EINVAL);
    if (in->bytes < sizeof(fuse_in_header)) return refuse(EINVAL);
    if (out->bytes != 0 && out->bytes < sizeof(fuse_out_header)) return refuse(EINVAL);
    Request request;
    request.flight_ = std::make_unique<Request::Flight>(completion);
    const auto prepared = request.flight_->prepare(state_->device->memory(), in->segments, out->segments);
    if (!prepared) return std::unexpected{error_of(prepared.error())};
    return request;
}

std::uint64_t Device::next_unique() noexcept {
    return driver::FuseClient::next_unique();
}

Result<std::uint32_t> Device::submit(Request& request) {
    const std::uint32_t queue = state_->queue_of_current_cpu();
    if (const Status submitted = submit(request, queue); !submitted)
        return std::unexpected{submitted.error()};
    return queue;
}

Status Device::submit(Request& request, std::uint32_t queue) {
    driver::RequestQueue* const found = state_->queue(queue);
    if (found == nullptr || !request.flight_) return refuse(EINVAL);
    request.flight_->queue = found;
    return translated(found->submit(*request.flight_));
}

Status Device::submit(std::span<Request* const> requests, std::uint32_t queue) {
    driver::RequestQueue* const found = state_->queue(queue);
    if (found == nullptr) return refuse(EINVAL);
    std::vector<driver::Request*> flights;
    flights.reserve(requests.size());
    for (const Request* const request : requests) {
        if (request == nullptr || !request->flight_) return refuse(EINVAL);
        flights.push_back(request->flight_.get());
        request->flight_->queue = found;
    }
    return translated(found->submit(flights));
}

bool Device::withdraw(Request& request) {
    if (!request.flight_ || request.flight_->queue == nullptr) return false;
    return request.flight_->queue->withdraw(*request.flight_);
}

std::size_t Device::poll(std::uint32_t queue) {
    driver::RequestQueue* const found = state_->queue(queue);
    return found != nullptr ? found->poll() : 0;
}

std::size_t Device::wait(std::uint32_t queue, std::chrono::milliseconds timeout) {
    driver::RequestQueue* const found = state_->queue(queue);
    return found != nullptr ? found->wait(driver::after(timeout)) : 0;
}

Status Device::drain(std::chrono::milliseconds timeout) {
    const driver::Deadline deadline = driver::after(timeout);
    Status drained = translated(state_->device->hiprio().drain(deadline));
    for (std::uint32_t queue = 0; queue < request_queue_count(); ++queue) {
        const Status one = translated(state_->device->request_queue(queue).drain(deadline));
        if (drained) drained = one;
    }
    return drained;
}

} // namespace viaduct::client
