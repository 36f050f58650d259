// SPDX-License-Identifier: Apache-2.0
#include "vhost/assembler.h"
#include "vhost/messages.h"

#include <algorithm>
#include <fcntl.h>
#include <gtest/gtest.h>

namespace viaduct::vhost {
namespace {

// Feeds `bytes` in pieces of at most `piece`.
std::vector<Message> assemble(MessageAssembler& assembler, std::span<const std::byte> bytes,
                              std::size_t piece) {
    std::vector<Message> messages;
    while (!bytes.empty()) {
        const auto room = assembler.room();
        const std::size_t count = std::min({piece, room.size(), bytes.size()});
        std::ranges::copy(bytes.first(count), room.begin());
        EXPECT_TRUE(assembler.advance(count));
        bytes = bytes.subspan(count);
        if (assembler.complete()) messages.push_back(assembler.take());
    }
    return messages;
}

Status advance_with(MessageAssembler& assembler, const Header& header) {
    const auto bytes = encode(header);
    std::ranges::copy(bytes, assembler.room().begin());
    return assembler.advance(bytes.size());
}

TEST(Messages, have_the_names_of_the_protocol) {
    EXPECT_EQ(name_of(Request::get_features), "GET_FEATURES");
    EXPECT_EQ(name_of(Request::set_vring_kick), "SET_VRING_KICK");
    EXPECT_EQ(name_of(Request::rem_mem_reg), "REM_MEM_REG");
    EXPECT_EQ(name_of(Request::check_device_state), "CHECK_DEVICE_STATE");
    EXPECT_EQ(name_of(static_cast<Request>(77)), "request 77");
}

TEST(Messages, payload_of_another_size_is_refused) {
    const auto bytes = encode(VringState{.index = 1, .num = 2});
    ASSERT_TRUE(decode<VringState>(bytes));
    EXPECT_EQ(decode<VringState>(bytes)->num, 2U);
    EXPECT_FALSE(decode<VringState>(std::span{bytes}.first(7)));
    EXPECT_FALSE(decode<VringAddress>(bytes));
}

TEST(Messages, table_is_bounded_by_its_payload_and_by_eight) {
    std::vector<std::byte> payload = encode(TableHeader{.count = 2, .padding = 0});
    payload.resize(payload.size() + 2 * sizeof(WireRegion));
    EXPECT_EQ(decode_table(payload)->size(), 2U);

    payload.resize(payload.size() - 1);
    EXPECT_FALSE(decode_table(payload));
    EXPECT_FALSE(decode_table({}));

    auto nine = encode(TableHeader{.count = 9, .padding = 0});
    nine.resize(nine.size() + 9 * sizeof(WireRegion));
    EXPECT_FALSE(decode_table(nine));
    auto huge = encode(TableHeader{.count = 0xffffffff, .padding = 0});
    EXPECT_FALSE(decode_table(huge));
}

TEST(Messages, table_may_come_with_all_eight_places) {
    std::vector<std::byte> payload = encode(TableHeader{.count = 1, .padding = 0});
    payload.resize(payload.size() + 8 * sizeof(WireRegion));
    EXPECT_EQ(decode_table(payload)->size(), 1U);
}

TEST(Assembler, any_split_of_the_bytes_gives_the_same_messages) {
    auto bytes = frame(Request::set_vring_num, 0, encode(VringState{.index = 1, .num = 64}));
    const auto second = frame(Request::get_features, kFlagNeedReply, {});
    bytes.insert(bytes.end(), second.begin(), second.end());

    for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
        MessageAssembler assembler;
        const auto messages = assemble(assembler, bytes, piece);
        ASSERT_EQ(messages.size(), 2U) << piece;
        EXPECT_EQ(messages[0].request(), Request::set_vring_num);
        EXPECT_EQ(decode<VringState>(messages[0].payload)->num, 64U);
        EXPECT_EQ(messages[1].request(), Request::get_features);
        EXPECT_TRUE(messages[1].need_reply());
        EXPECT_TRUE(assembler.empty());
    }
}

TEST(Assembler, never_takes_bytes_of_the_next_message) {
    MessageAssembler assembler;
    EXPECT_EQ(assembler.room().size(), sizeof(Header));
    ASSERT_TRUE(advance_with(assembler, {.request = 8, .flags = kFlagVersion, .size = 8}));
    EXPECT_EQ(assembler.room().size(), 8U);
}

TEST(Assembler, size_that_lies_ends_the_stream) {
    MessageAssembler assembler;
    const auto advanced = advance_with(assembler, {.request = 5, .flags = kFlagVersion, .size = 1U << 31});

    ASSERT_FALSE(advanced);
    EXPECT_EQ(advanced.error(), Errno{EPROTO});
}

TEST(Assembler, other_version_ends_the_stream) {
    MessageAssembler assembler;
    EXPECT_FALSE(advance_with(assembler, {.request = 1, .flags = 2, .size = 0}));
}

TEST(Assembler, keeps_eight_descriptors_and_closes_the_rest) {
    MessageAssembler assembler;
    std::vector<int> numbers;
    for (int count = 0; count < 10; ++count) {
        Fd fd{::open("/dev/null", O_RDONLY | O_CLOEXEC)};
        numbers.push_back(fd.get());
        assembler.add(std::move(fd));
    }
    ASSERT_TRUE(advance_with(assembler, {.request = 5, .flags = kFlagVersion, .size = 0}));
    const Message message = assembler.take();

    EXPECT_EQ(message.fds.size(), 8U);
    EXPECT_EQ(message.fd_count(), 10U);
    EXPECT_EQ(::fcntl(numbers[9], F_GETFD), -1);
}

} // namespace
} // namespace viaduct::vhost
