// SPDX-License-Identifier: Apache-2.0
//
// A session over a FileSystem, with the test's own thread as its only worker: what does not wait is answered
// when handle() returns.
#pragma once

#include "session/session.h"
#include "support/fake_request.h"
#include "support/toy_file_system.h"

#include <gtest/gtest.h>

namespace viaduct::session {

inline test::FuseMessage init_message(std::uint32_t minor = 45, std::uint32_t major = 7) {
    test::FuseMessage message{FUSE_INIT, 0};
    fuse_init_in offer{};
    offer.major = major;
    offer.minor = minor;
    offer.flags = 0x7fffffff;
    message.with(offer);
    return message;
}

class OneWorker {
public:
    explicit OneWorker(fs::FileSystem& fs, const SessionOptions& options = {})
        : worker_(std::move(*rt::Worker::make({.name = "test"}))), session_(fs, options) {
        session_.attach_worker(*worker_);
    }
    ~OneWorker() {
        if (session_.running()) handle(test::FuseMessage{FUSE_DESTROY}, 16);
    }

    // Hands it in, and expects the answer.
    std::unique_ptr<test::FakeRequest> handle(const test::FuseMessage& message, std::size_t room = 1024,
                                              std::size_t in_piece = 0, std::size_t out_piece = 0) {
        auto request = start(message, room, in_piece, out_piece);
        EXPECT_TRUE(request->completed());
        if (request->completed() && request->reply_bytes() > 0) {
            EXPECT_EQ(request->header().len, request->reply_bytes());
            EXPECT_EQ(request->header().unique, 77U);
        }
        return request;
    }
    std::unique_ptr<test::FakeRequest> start(const test::FuseMessage& message, std::size_t room = 1024,
                                             std::size_t in_piece = 0, std::size_t out_piece = 0) {
        auto request = std::make_unique<test::FakeRequest>(message, room, in_piece, out_piece);
        session_.handle(*request);
        return request;
    }
    // Delivers what was posted to the worker, and what that posts.
    void settle() {
        worker_->stop();
        worker_->run();
    }
    void init() { ASSERT_EQ(handle(init_message())->error(), 0); }

    Session& session() { return session_; }
    rt::Worker& worker() { return *worker_; }
    const LaneCounters& counters() { return *session_.counters_on(*worker_); }

private:
    std::unique_ptr<rt::Worker> worker_;
    Session session_;
};

} // namespace viaduct::session
