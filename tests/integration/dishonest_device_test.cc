// SPDX-License-Identifier: Apache-2.0
//
// The driver end on devices that are silent, leave, lie, or can do little: nobody hangs.
#include "driver/device.h"
#include "driver/fuse_client.h"
#include "support/scripted_back_end.h"
#include "support/temp_dir.h"

#include <gtest/gtest.h>

namespace viaduct {
namespace {

using namespace std::chrono_literals;
using driver::FuseClient;
using vhost::Request;

class DishonestDevice : public testing::Test {
protected:
    Outcome<std::unique_ptr<driver::Device>> connect(const test::ScriptedBackEnd::Options& script,
                                                     driver::DeviceOptions options = {}) {
        options.socket = folder_.file("socket");
        back_end_ = std::make_unique<test::ScriptedBackEnd>(options.socket, script);
        return driver::Device::connect(options);
    }
    static std::shared_ptr<driver::Call> begin(driver::Device& device, std::uint32_t queue = 0) {
        FuseClient client{device, {.queue = queue}};
        auto call = client.begin(client.call_options(FUSE_GETATTR, FuseClient::kRoot));
        EXPECT_TRUE(call);
        return call.value_or(nullptr);
    }

    const test::TempDir folder_;
    std::unique_ptr<test::ScriptedBackEnd> back_end_;
};

TEST_F(DishonestDevice, one_without_virtio_1_is_refused) {
    const auto device = connect({.features = vhost::kFeatureProtocolFeatures});
    ASSERT_FALSE(device);
    EXPECT_NE(device.error().message.find("virtio 1.0"), std::string::npos) << device.error().message;
}

TEST_F(DishonestDevice, one_without_request_queues_is_refused) {
    const auto device = connect({.queues = 1});
    ASSERT_FALSE(device);
    EXPECT_NE(device.error().message.find("no request queue"), std::string::npos) << device.error().message;
}

TEST_F(DishonestDevice, without_the_multiqueue_feature_there_is_one_request_queue) {
    const auto device = connect({.protocol_features = vhost::kProtocolReplyAck}, {.request_queues = 4});
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ((*device)->request_queue_count(), 1U);
    EXPECT_TRUE(back_end_->has_seen(Request::set_mem_table)); // no memory slots either
}

TEST_F(DishonestDevice, features_that_are_not_offered_are_not_used) {
    const auto device =
        connect({.features = virtio::kFeatureVersion1 | vhost::kFeatureProtocolFeatures}, {.packed = true});
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_FALSE((*device)->ring_options().packed);
    EXPECT_FALSE((*device)->ring_options().event_idx);
    EXPECT_FALSE((*device)->ring_options().indirect);
}

// Those that are answered while a device is set up.
constexpr Request kSetUp[] = {
    Request::get_features,   Request::get_protocol_features, Request::get_queue_num,
    Request::add_mem_reg,    Request::set_vring_call,        Request::set_vring_err,
    Request::set_vring_num,  Request::set_vring_base,        Request::set_vring_addr,
    Request::set_vring_kick, Request::set_vring_enable};

class DishonestSetUp : public DishonestDevice, public testing::WithParamInterface<Request> {};

INSTANTIATE_TEST_SUITE_P(Messages, DishonestSetUp, testing::ValuesIn(kSetUp),
                         [](const auto& info) { return vhost::name_of(info.param); });

TEST_P(DishonestSetUp, a_device_that_leaves_is_a_failed_connection) {
    EXPECT_FALSE(connect({.leaves_at = GetParam()}));
    EXPECT_TRUE(back_end_->has_seen(GetParam()));
}

TEST_P(DishonestSetUp, a_device_that_falls_silent_is_given_only_so_long) {
    EXPECT_FALSE(connect({.silent_from = GetParam()}, {.message_timeout = 100ms}));
    EXPECT_TRUE(back_end_->has_seen(GetParam()));
}

TEST_P(DishonestSetUp, an_answer_of_another_length_is_a_failed_connection) {
    EXPECT_FALSE(connect({.lies_at = GetParam()}));
    EXPECT_TRUE(back_end_->has_seen(GetParam()));
}

TEST_F(DishonestDevice, a_request_that_is_never_answered_costs_the_caller_its_time) {
    const auto device = connect({});
    ASSERT_TRUE(device) << device.error().message;
    FuseClient client{**device, {.queue = 0, .timeout = 50ms}};
    EXPECT_EQ(client.getattr(FuseClient::kRoot).error(), Errno{ETIMEDOUT});
    EXPECT_EQ((*device)->request_queue(0).in_flight(), 1U); // its memory is the device's still
    const auto call = begin(**device);
    (*device)->disconnect();
    EXPECT_EQ(call->reply().error(), Errno{ECONNABORTED});
    EXPECT_EQ(client.getattr(FuseClient::kRoot).error(), Errno{ENOTCONN});
}

TEST_F(DishonestDevice, one_that_leaves_ends_what_is_in_flight_on_every_queue) {
    const auto device = connect({}, {.request_queues = 2});
    ASSERT_TRUE(device) << device.error().message;
    const auto first = begin(**device, 0);
    const auto second = begin(**device, 1);
    back_end_->leave();
    EXPECT_EQ(first->wait(driver::after(30s)).error(), Errno{ECONNABORTED});
    EXPECT_EQ(second->wait(driver::after(30s)).error(), Errno{ECONNABORTED});
    EXPECT_FALSE((*device)->alive());
}

TEST_F(DishonestDevice, a_queue_that_it_gives_up_ends_alone) {
    const auto device = connect({}, {.request_queues = 2});
    ASSERT_TRUE(device) << device.error().message;
    const auto first = begin(**device, 0);
    const auto second = begin(**device, 1);
    back_end_->give_up_queue(1); // the first request queue
    EXPECT_EQ(first->wait(driver::after(30s)).error(), Errno{ECONNABORTED});
    EXPECT_FALSE(second->ended());
    EXPECT_TRUE((*device)->alive());
    FuseClient client{**device, {.queue = 0}};
    EXPECT_EQ(client.getattr(FuseClient::kRoot).error(), Errno{ENOTCONN});
}

TEST_F(DishonestDevice, a_stop_that_is_not_answered_ends_the_device) {
    const auto device = connect({}, {.message_timeout = 200ms});
    ASSERT_TRUE(device) << device.error().message;
    const auto call = begin(**device);
    back_end_->fall_silent_at(Request::get_vring_base);
    EXPECT_EQ((*device)->stop_queue(1), fail(ETIMEDOUT));
    EXPECT_EQ(call->wait(driver::after(30s)).error(), Errno{ECONNABORTED});
    EXPECT_FALSE((*device)->alive());
}

// GET_VRING_BASE is answered with the requests still out: they are lost, and the queue begins anew.
TEST_F(DishonestDevice, requests_that_it_keeps_after_a_stop_are_ended) {
    const auto device = connect({});
    ASSERT_TRUE(device) << device.error().message;
    const auto call = begin(**device);
    EXPECT_TRUE((*device)->stop_queue(1));
    EXPECT_EQ(call->reply().error(), Errno{ECONNABORTED});
    EXPECT_TRUE((*device)->start_queue(1));
    EXPECT_EQ((*device)->request_queue(0).in_flight(), 0U);
}

} // namespace
} // namespace viaduct
