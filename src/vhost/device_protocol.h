// SPDX-License-Identifier: Apache-2.0
//
// The device side of the vhost-user protocol: a message in, the answer out.
//
// Knows no socket.  One object per connection, on the control thread, one message at a time.  What a message
// asks is checked in full before anything is changed.  What is refused leaves everything as it was: the front
// end is told when it asked to be, and a log line names the request and the reason.
#pragma once

#include "base/fd.h"
#include "base/result.h"
#include "rt/task.h"
#include "vhost/device_operations.h"
#include "vhost/memory_change.h"
#include "vhost/messages.h"
#include "vhost/vrings.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::vhost {

class DeviceProtocol {
public:
    // `device` outlives this object.
    explicit DeviceProtocol(DeviceOperations& device);

    // The bytes to send back; none when no answer is due.
    // EPROTO: the connection cannot go on (a question that has no answer, a reply where a request belongs).
    rt::Task<Result<std::vector<std::byte>>> handle(Message message);

    // The connection is over: the device is reset, descriptors and memory are let go.
    rt::Task<void> end();

    std::uint64_t features() const noexcept { return features_; }
    std::uint64_t protocol_features() const noexcept { return protocol_features_; }
    // For requests of ours; invalid until the front end sends it.
    FdRef backend_channel() const noexcept { return backend_channel_; }

private:
    // The payload of an answer; nullopt where the protocol has none; a sentence when refused.
    using Answer = Outcome<std::optional<std::vector<std::byte>>>;

    rt::Task<Answer> answer(Message message);
    // Requests by what they are about; nullopt inside: not one of mine.
    std::optional<Answer> answer_at_once(Message& message);
    rt::Task<Outcome<void>> change_memory(Message message);
    rt::Task<Outcome<void>> change_vring(Message message);
    rt::Task<Outcome<void>> set_event(Message message);
    rt::Task<Outcome<void>> reset_device();

    std::uint64_t offered_features() const;
    std::uint64_t offered_protocol_features() const;
    Outcome<void> set_features(const Message& message);
    Outcome<void> set_protocol_features(const Message& message);
    Outcome<void> set_backend_channel(Message& message);
    Outcome<void> set_config(const Message& message) const;
    Outcome<std::vector<std::byte>> get_config(const Message& message) const;
    Outcome<MemoryChange> memory_change(Message& message) const;

    // At most kComplaintsMax lines a connection: a front end cannot fill the log.
    void complain(const std::string& text);

    DeviceOperations& device_;
    Vrings vrings_;
    std::shared_ptr<const MemoryTable> memory_; // shared with the device and vrings_
    std::uint64_t features_ = 0;                // negotiated, vhost-user's bit included
    std::uint64_t protocol_features_ = 0;
    Fd backend_channel_;
    std::uint32_t complaints_ = 0;
    std::uint64_t unknown_seen_ = 0; // bit per request number; 63 for all beyond
};

} // namespace viaduct::vhost
