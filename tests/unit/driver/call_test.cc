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
    const auto body = call->wait(after(1s));
    ASSERT_TRUE(body);
    EXPECT_EQ(body->size(), 30U);
}

TEST(Call, an_error_in_the_reply_is_the_result) {
    ScriptedDevice device{{.size = 16}};
    const auto call = Call::make(device.arena(), {.opcode = FUSE_GETATTR, .node = 1}, 2).value();
    ASSERT_TRUE(call->submit(device.queue()));
    device.answer(*device.pop(), 0, {}, -ENOENT);
    EXPECT_EQ(call->wait(after(1s)).error(), Errno{ENOENT});
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
