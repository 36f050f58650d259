// SPDX-License-Identifier: Apache-2.0
#include "driver/call.h"
#include "driver/fuse_client.h"

#include <gtest/gtest.h>

#include "unit/driver/scripted_device.h"

namespace viaduct::driver {
namespace {

using namespace std::chrono_literals;

TEST(Call, segments_are_as_long_as_was_asked_for) {
    ScriptedDevice device{{.size = 16}};
    CallOptions options{.opcode = FUSE_LOOKUP, .node = 1, .reply_bytes_max = 100};
    options.add_name("name");
    options.in_split = {1, 40};
    options.out_split = {3, 13, 50};
    const auto call = Call::make(device.arena(), options, 2).value();
    ASSERT_TRUE(call->submit(device.queue()));
    const auto chain = device.pop();

    ASSERT_TRUE(chain);
    ASSERT_EQ(chain->readable.size(), 3U);
    EXPECT_EQ(chain->readable[0].iov_len, 1U);
    EXPECT_EQ(chain->readable[2].iov_len, 4U);
    ASSERT_EQ(chain->writable.size(), 4U);
    EXPECT_EQ(chain->writable[3].iov_len, 50U);
    device.answer(*chain, 30);
    const auto body = call->wait(after(60s));
    ASSERT_TRUE(body);
    EXPECT_EQ(body->size(), 30U);
}

TEST(Call, an_error_in_the_reply_is_the_result) {
    ScriptedDevice device{{.size = 16}};
    const auto call = Call::make(device.arena(), {.opcode = FUSE_GETATTR, .node = 1}, 2).value();
    ASSERT_TRUE(call->submit(device.queue()));
    device.answer(*device.pop(), 0, {}, -ENOENT);
    EXPECT_EQ(call->wait(after(60s)).error(), Errno{ENOENT});
}

TEST(Call, what_nobody_waits_for_keeps_its_memory_until_it_has_ended) {
    ScriptedDevice device{{.size = 16}};
    auto call = Call::make(device.arena(), {.opcode = FUSE_GETATTR, .node = 1}, 2).value();
    std::weak_ptr<Call> watched = call;
    ASSERT_TRUE(call->submit(device.queue()));
    EXPECT_EQ(call->wait(after(1ms)).error(), Errno{ETIMEDOUT});
    call.reset();
    EXPECT_FALSE(watched.expired());
    device.answer(*device.pop());
    EXPECT_EQ(device.queue().poll(), 1U);
    EXPECT_TRUE(watched.expired());
}

// A request queue and a hiprio queue of a device that answers as a test says.
class CallInterrupt : public testing::Test {
protected:
    std::shared_ptr<Call> begin(std::uint64_t unique) {
        auto call = Call::make(device_.arena(), {.opcode = FUSE_GETATTR, .node = 1}, unique).value();
        EXPECT_TRUE(call->submit(device_.queue()));
        return call;
    }
    Status interrupt(Call& call) { return call.interrupt(hiprio_.arena(), hiprio_.queue()); }
    void answer_one() {
        device_.answer(*device_.pop());
        device_.queue().poll();
    }

    ScriptedDevice device_{{.indirect = true, .size = 2}};
    ScriptedDevice hiprio_{{.size = 2}};
};

TEST_F(CallInterrupt, it_is_told_once_for_each_call) {
    const auto call = begin(8);
    ASSERT_TRUE(interrupt(*call));
    ASSERT_TRUE(interrupt(*call));
    const auto chain = hiprio_.pop();
    ASSERT_TRUE(chain);
    struct {
        fuse_in_header header;
        fuse_interrupt_in body;
    } message{};
    SegmentReader{chain->readable}.read(message);
    EXPECT_EQ(message.header.opcode, static_cast<std::uint32_t>(FUSE_INTERRUPT));
    EXPECT_EQ(message.header.unique, 9U);
    EXPECT_EQ(message.header.len, sizeof message);
    EXPECT_EQ(message.body.unique, 8U);
    EXPECT_EQ(chain->writable_bytes, 0U);
    EXPECT_FALSE(hiprio_.pop());
    hiprio_.give_back(*chain, 0);
    EXPECT_EQ(hiprio_.queue().poll(), 1U);
    answer_one(); // the call's own answer still comes
    EXPECT_TRUE(call->reply());
}

TEST_F(CallInterrupt, nothing_is_told_of_a_call_that_has_ended) {
    const auto call = begin(8);
    answer_one();
    ASSERT_TRUE(interrupt(*call));
    EXPECT_EQ(hiprio_.queue().in_flight(), 0U);
    EXPECT_TRUE(call->reply());
}

TEST_F(CallInterrupt, a_call_that_the_device_has_not_got_is_withdrawn) {
    const auto first = begin(2);
    const auto second = begin(4);
    const auto parked = begin(6);
    ASSERT_TRUE(interrupt(*parked));
    EXPECT_EQ(parked->reply().error(), Errno{EINTR});
    EXPECT_EQ(hiprio_.queue().in_flight(), 0U);
    answer_one();
    answer_one();
    EXPECT_FALSE(device_.pop());
}

// hiprio is full, so that INTERRUPTs are parked; those whose call ends meanwhile are sent or not, but the
// queue's books are right.
TEST_F(CallInterrupt, calls_that_end_meanwhile_leave_nothing_behind) {
    std::atomic<bool> stop{false};
    device_.run([&](const virtio::Chain& chain) { device_.answer(chain); });
    std::thread poller{[&] {
        while (!stop.load(std::memory_order_relaxed)) device_.queue().poll();
    }};
    for (std::uint64_t count = 1; count <= 2000; ++count) {
        const auto call = begin(2 * count);
        ASSERT_TRUE(interrupt(*call));
        const auto reply = call->wait(after(60s));
        ASSERT_TRUE(reply || reply.error() == Errno{EINTR});
        if (count % 5 != 0) continue;
        while (hiprio_.queue().in_flight() > 0) {
            while (const auto chain = hiprio_.pop()) hiprio_.give_back(*chain, 0);
            hiprio_.queue().poll();
        }
    }
    stop.store(true, std::memory_order_relaxed);
    poller.join();
    device_.stop_thread();
    EXPECT_EQ(hiprio_.queue().in_flight(), 0U);
    EXPECT_EQ(hiprio_.queue().parked(), 0U);
}

TEST(Call, one_that_waits_its_turn_or_is_parked_can_be_withdrawn) {
    BackgroundLimit limit{3};
    ScriptedDevice device{{.indirect = true, .size = 2}};
    std::vector<std::shared_ptr<Call>> calls;
    for (std::uint64_t index = 0; index < 4; ++index) { // two on the ring, one parked, one waits
        calls.push_back(Call::make(device.arena(), {.opcode = FUSE_GETATTR}, 2 * index).value());
        ASSERT_TRUE(calls.back()->submit(device.queue(), limit));
    }
    EXPECT_FALSE(calls[1]->withdraw());
    EXPECT_TRUE(calls[3]->withdraw());
    EXPECT_TRUE(calls[2]->withdraw());
    EXPECT_EQ(calls[2]->reply().error(), Errno{EINTR});
    EXPECT_EQ(calls[3]->reply().error(), Errno{EINTR});
    while (const auto chain = device.pop()) device.answer(*chain);
    EXPECT_EQ(device.queue().poll(), 2U);
    EXPECT_EQ(limit.active(), 0U);
}

TEST(Call, a_split_beyond_the_end_is_refused) {
    ScriptedDevice device{{.size = 16}};
    const CallOptions options{.opcode = FUSE_GETATTR, .in_split = {41}};
    EXPECT_EQ(Call::make(device.arena(), options, 2).error(), Errno{EFAULT});
}

TEST(DecodeDirectory, entries_come_out_in_order_and_a_cut_one_is_an_error) {
    std::vector<std::byte> bytes;
    for (const std::string_view name : {"a", "quite a long name"}) {
        fuse_dirent dirent{.ino = 7, .off = bytes.size(), .namelen = static_cast<std::uint32_t>(name.size())};
        const auto* const head = reinterpret_cast<const std::byte*>(&dirent);
        bytes.insert(bytes.end(), head, head + FUSE_NAME_OFFSET);
        for (const char letter : name) bytes.push_back(static_cast<std::byte>(letter));
        bytes.resize(FUSE_DIRENT_ALIGN(bytes.size()));
    }
    const auto entries = decode_directory(bytes, false);
    ASSERT_TRUE(entries);
    ASSERT_EQ(entries->size(), 2U);
    EXPECT_EQ((*entries)[1].name, "quite a long name");
    bytes.pop_back();
    EXPECT_EQ(decode_directory(bytes, false).error(), Errno{EIO});
}

} // namespace
} // namespace viaduct::driver
