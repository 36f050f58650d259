// SPDX-License-Identifier: Apache-2.0
//
// A vhost-user back end that answers set-up messages as a test says, and serves no request.
#pragma once

#include "base/assert.h"
#include "vhost/messages.h"
#include "vhost/socket.h"
#include "virtio/driver_queue.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <vector>

namespace viaduct::test {

class ScriptedBackEnd {
public:
    struct Options {
        std::uint64_t features = virtio::kFeatureVersion1 | virtio::kFeatureEventIdx |
                                 virtio::kFeatureIndirectDesc | vhost::kFeatureProtocolFeatures;
        std::uint64_t protocol_features =
            vhost::kProtocolMq | vhost::kProtocolReplyAck | vhost::kProtocolConfigureMemSlots;
        std::uint64_t queues = 3; // hiprio included
        // At this message it leaves, answers no more, or sends an answer of another length.
        std::optional<vhost::Request> leaves_at;
        std::optional<vhost::Request> silent_from;
        std::optional<vhost::Request> lies_at;
    };

    // Listens at `path` at once; takes one connection.
    ScriptedBackEnd(const std::string& path, const Options& options) : options_(options) {
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        ASSERT(path.size() < sizeof address.sun_path);
        std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
        listener_ = Fd{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
        ASSERT(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
        ASSERT(::listen(listener_.get(), 1) == 0);
        thread_ = std::thread{[this] { serve(); }};
    }
    ~ScriptedBackEnd() {
        leave();
        thread_.join();
    }

    // The connection ends.
    void leave() {
        ::shutdown(listener_.get(), SHUT_RDWR);
        const std::scoped_lock lock{mutex_};
        if (socket_) socket_->shutdown();
    }
    // Messages from now on, of this kind, are not answered.
    void fall_silent_at(vhost::Request request) {
        const std::scoped_lock lock{mutex_};
        options_.silent_from = request;
    }
    // What QEMU calls a vring error.
    void give_up_queue(std::uint32_t index) {
        const std::scoped_lock lock{mutex_};
        const std::uint64_t one = 1;
        ASSERT(::write(error_fds_.at(index).get(), &one, sizeof one) == sizeof one);
    }
    bool has_seen(vhost::Request request) {
        const std::scoped_lock lock{mutex_};
        return seen_[request] > 0;
    }

private:
    void serve() {
        Fd connection{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
        if (!connection) return;
        {
            const std::scoped_lock lock{mutex_};
            socket_.emplace(std::move(connection));
        }
        for (;;) {
            auto message = socket_->receive_until(std::chrono::steady_clock::now() + std::chrono::hours{1});
            if (!message || !*message) break;
            const std::scoped_lock lock{mutex_};
            if (!answer(**message)) break;
        }
        const std::scoped_lock lock{mutex_};
        socket_->shutdown();
    }

    bool answer(vhost::Message& message) {
        const vhost::Request request = message.request();
        ++seen_[request];
        if (request == options_.leaves_at) return false;
        if (request == options_.silent_from) silent_ = true;
        if (request == vhost::Request::set_vring_err && !message.fds.empty()) {
            const auto index = vhost::decode<std::uint64_t>(message.payload);
            error_fds_[static_cast<std::uint32_t>(*index & vhost::kVringIndexMask)] =
                std::move(message.fds.front());
        }
        if (silent_) return true;
        auto payload = answer_to(message);
        if (!payload) return true;
        if (request == options_.lies_at) payload->push_back(std::byte{0});
        return socket_
            ->send_until(vhost::frame(request, vhost::kFlagReply, *payload), {},
                         std::chrono::steady_clock::now() + std::chrono::minutes{1})
            .has_value();
    }
    std::optional<std::vector<std::byte>> answer_to(const vhost::Message& message) const {
        using vhost::Request;
        switch (message.request()) {
        case Request::get_features:
            return vhost::encode(options_.features);
        case Request::get_protocol_features:
            return vhost::encode(options_.protocol_features);
        case Request::get_queue_num:
            return vhost::encode(options_.queues);
        case Request::get_vring_base:
            return message.payload; // the index it was asked for, and where a split ring begins
        default:
            if (!message.need_reply()) return std::nullopt;
            return vhost::encode(std::uint64_t{0});
        }
    }

    Fd listener_;
    std::mutex mutex_; // guards what follows
    Options options_;
    std::optional<vhost::MessageSocket> socket_;
    std::map<vhost::Request, int> seen_;
    std::map<std::uint32_t, Fd> error_fds_;
    bool silent_ = false;

    std::thread thread_;
};

} // namespace viaduct::test
