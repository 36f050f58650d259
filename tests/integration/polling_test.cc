// SPDX-License-Identifier: Apache-2.0
//
// --poll-us: a worker without work looks for some for so long, and no longer, before it asks for kicks.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/served_share.h"
#include "support/waiting.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

using driver::FuseClient;

class Polling : public testing::TestWithParam<bool> {
protected:
    void serve(const char* poll_us) {
        served_.emplace(std::vector<std::string>{"--poll-us", poll_us});
        auto device = driver::Device::connect({.socket = served_->socket(), .packed = GetParam()});
        ASSERT_TRUE(device) << device.error().message;
        device_ = *std::move(device);
        client_.emplace(*device_, driver::FuseClientOptions{.queue = 0});
        ASSERT_TRUE(client_->init());
    }
    std::uint64_t kicks() { return client_->queue().stats().kicks.get(); }

    std::optional<test::ServedShare> served_;
    std::unique_ptr<driver::Device> device_;
    std::optional<FuseClient> client_;
};

INSTANTIATE_TEST_SUITE_P(Rings, Polling, testing::Bool(),
                         [](const auto& info) { return info.param ? "packed" : "split"; });

TEST_P(Polling, one_request_after_the_other_is_found_without_a_kick) {
    serve("1000000");
    ASSERT_TRUE(client_->getattr(FuseClient::kRoot)); // the worker may have slept before
    const std::uint64_t before = kicks();
    for (int count = 0; count < 200; ++count) ASSERT_TRUE(client_->getattr(FuseClient::kRoot));
    // Not none: on a machine that stands still for a second the worker falls asleep.
    EXPECT_LT(kicks() - before, 20U);
}

TEST_P(Polling, a_worker_that_found_nothing_for_so_long_is_kicked_again) {
    serve("200");
    const auto kicked = [&] {
        const std::uint64_t before = kicks();
        EXPECT_TRUE(client_->getattr(FuseClient::kRoot));
        return kicks() > before;
    };
    EXPECT_TRUE(test::wait_until(kicked, test::kPatience));
}

} // namespace
} // namespace viaduct
