// SPDX-License-Identifier: Apache-2.0
#include "fuse/decode.h"

#include "support/fuse_message.h"

#include <gtest/gtest.h>

namespace viaduct::fuse {
namespace {

using test::FuseMessage;

Status decode(const FuseMessage& message, Decoded& into, const Dialect& dialect = {}) {
    static std::vector<std::byte> bytes; // outlives `into`'s reader within a test
    static std::vector<iovec> segments;
    bytes = message.bytes();
    segments = test::whole(bytes);
    return into.decode(segments, dialect);
}

// A well-formed request of each served opcode: the fixed struct alone is zero.
FuseMessage well_formed(const Opcode& entry) {
    FuseMessage message{entry.number};
    message.with_zeros(entry.in_bytes_max);
    if (entry.number == FUSE_SETXATTR) message.with_string("user.a");
    return message;
}

TEST(Decode, a_header_that_is_cut_gives_nothing_to_answer) {
    std::vector<std::byte> bytes = FuseMessage{FUSE_STATFS}.bytes();
    for (std::size_t length = 0; length < bytes.size(); ++length) {
        const iovec segment{bytes.data(), length};
        Decoded decoded;
        EXPECT_FALSE(decoded.decode({&segment, 1}, {}));
        EXPECT_FALSE(decoded.has_header());
    }
}

TEST(Decode, every_served_opcode_is_taken_when_it_is_whole_and_refused_when_a_byte_is_missing) {
    for (const Opcode& entry : opcodes()) {
        if (entry.verdict != Verdict::served) continue;
        Decoded decoded;
        EXPECT_TRUE(decode(well_formed(entry), decoded, {.setxattr_ext = true})) << entry.name;
        if (entry.in_bytes_min == 0) continue;
        const auto status = decode(FuseMessage{entry.number}.with_zeros(entry.in_bytes_min - 1U), decoded);
        ASSERT_FALSE(status) << entry.name;
        EXPECT_EQ(status.error(), Errno{EINVAL}) << entry.name;
        EXPECT_TRUE(decoded.has_header());
    }
}

TEST(Decode, opcodes_that_are_not_served_are_enosys_whatever_follows) {
    for (const std::uint32_t number : {0U, 7U, 37U, 39U, 4096U, 9999U}) {
        Decoded decoded;
        const auto status = decode(FuseMessage{number}.with_zeros(13), decoded);
        ASSERT_FALSE(status);
        EXPECT_EQ(status.error(), Errno{ENOSYS}) << number;
    }
}

TEST(Decode, a_length_beyond_the_memory_is_a_lie) {
    for (const std::uint32_t len : {0U, 39U, 57U, 4096U, 0xffffffffU}) {
        Decoded decoded;
        const auto status = decode(FuseMessage{FUSE_GETATTR}.with(fuse_getattr_in{}).claiming(len), decoded);
        ASSERT_FALSE(status) << len;
        EXPECT_EQ(status.error(), Errno{EINVAL});
        EXPECT_TRUE(decoded.has_header());
    }
}

TEST(Decode, memory_beyond_the_length_is_not_looked_at) {
    Decoded decoded;
    ASSERT_TRUE(
        decode(FuseMessage{FUSE_LOOKUP}.with_string("name").with_string("more").claiming(45), decoded));
    std::array<char, 256> buffer;
    EXPECT_EQ(decoded.take_string(buffer), "name");
    EXPECT_EQ(decoded.rest_bytes(), 0U);
    EXPECT_FALSE(decoded.take_string(buffer));
}

TEST(Decode, cut_at_every_byte_it_reads_the_same) {
    FuseMessage message{FUSE_WRITE, 5, 99};
    message.with(fuse_write_in{.fh = 3, .offset = 4, .size = 10, .write_flags = 1})
        .with_bytes("0123456789", 10);
    auto bytes = message.bytes();
    for (std::size_t first = 1; first < bytes.size(); ++first) {
        for (const std::size_t piece : {std::size_t{1}, bytes.size()}) {
            const auto segments = test::cut(bytes, first, piece);
            Decoded decoded;
            ASSERT_TRUE(decoded.decode(segments, {})) << first;
            EXPECT_EQ(decoded.header().nodeid, 5U);
            EXPECT_EQ(decoded.header().unique, 99U);
            EXPECT_EQ(decoded.fixed<fuse_write_in>().fh, 3U);
            EXPECT_EQ(decoded.fixed<fuse_write_in>().offset, 4U);
            EXPECT_EQ(decoded.rest_bytes(), 10U);
            EXPECT_EQ(decoded.rest_offset(), 80U);
        }
    }
}

TEST(Decode, write_that_claims_another_size_than_it_carries_is_refused) {
    for (const std::uint32_t size : {0U, 9U, 11U, 0xffffffffU}) {
        Decoded decoded;
        const auto status =
            decode(FuseMessage{FUSE_WRITE}.with(fuse_write_in{.size = size}).with_zeros(10), decoded);
        ASSERT_FALSE(status) << size;
        EXPECT_EQ(status.error(), Errno{EINVAL});
    }
}

TEST(Decode, batch_forget_with_more_entries_than_bytes_is_refused) {
    Decoded decoded;
    FuseMessage message{FUSE_BATCH_FORGET};
    message.with(fuse_batch_forget_in{.count = 2}).with_zeros(2 * sizeof(fuse_forget_one));
    EXPECT_TRUE(decode(message, decoded));
    for (const std::uint32_t count : {3U, 0x10000000U, 0xffffffffU}) {
        FuseMessage lie{FUSE_BATCH_FORGET};
        lie.with(fuse_batch_forget_in{.count = count}).with_zeros(2 * sizeof(fuse_forget_one));
        EXPECT_FALSE(decode(lie, decoded)) << count;
    }
}

TEST(Decode, both_layouts_of_setxattr_are_told_apart_by_what_was_negotiated) {
    std::array<char, 256> name;
    std::array<char, 3> value{};

    Decoded old;
    FuseMessage short_form{FUSE_SETXATTR};
    short_form.with(std::uint32_t{3}).with(std::uint32_t{1}).with_string("user.a").with_bytes("xyz", 3);
    ASSERT_TRUE(decode(short_form, old, {.setxattr_ext = false}));
    EXPECT_EQ(old.fixed<fuse_setxattr_in>().size, 3U);
    EXPECT_EQ(old.fixed<fuse_setxattr_in>().setxattr_flags, 0U);
    EXPECT_EQ(old.take_string(name), "user.a");
    ASSERT_TRUE(old.take(value.data(), 3));
    EXPECT_EQ(std::string_view(value.data(), 3), "xyz");

    Decoded extended;
    FuseMessage long_form{FUSE_SETXATTR};
    long_form.with(fuse_setxattr_in{.size = 3, .flags = 1, .setxattr_flags = 1, .padding = 0});
    long_form.with_string("user.a").with_bytes("xyz", 3);
    ASSERT_TRUE(decode(long_form, extended, {.setxattr_ext = true}));
    EXPECT_EQ(extended.fixed<fuse_setxattr_in>().setxattr_flags, 1U);
    EXPECT_EQ(extended.take_string(name), "user.a");
    EXPECT_EQ(extended.rest_bytes(), 3U);
}

TEST(Decode, setxattr_that_claims_a_megabyte_and_carries_ten_bytes_is_refused) {
    Decoded decoded;
    FuseMessage message{FUSE_SETXATTR};
    message.with(fuse_setxattr_in{.size = 1U << 20, .flags = 0, .setxattr_flags = 0, .padding = 0});
    message.with_string("user.a").with_zeros(10);
    const auto status = decode(message, decoded, {.setxattr_ext = true});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error(), Errno{EINVAL});
}

TEST(Decode, strings_need_their_end_and_have_a_bound) {
    std::array<char, 256> buffer;
    Decoded decoded;
    ASSERT_TRUE(decode(FuseMessage{FUSE_LOOKUP}.with_bytes("abc", 3), decoded));
    EXPECT_EQ(decoded.take_string(buffer).error(), Errno{EINVAL});

    ASSERT_TRUE(decode(FuseMessage{FUSE_LOOKUP}.with_string(std::string(255, 'n')), decoded));
    EXPECT_EQ(decoded.take_string(buffer)->size(), 255U);

    ASSERT_TRUE(decode(FuseMessage{FUSE_LOOKUP}.with_string(std::string(256, 'n')), decoded));
    EXPECT_EQ(decoded.take_string(buffer).error(), Errno{ENAMETOOLONG});

    ASSERT_TRUE(decode(FuseMessage{FUSE_LOOKUP}, decoded));
    EXPECT_EQ(decoded.take_string(buffer).error(), Errno{EINVAL});
}

TEST(Decode, init_of_older_kernels_reads_zeros_for_what_they_do_not_send) {
    Decoded decoded;
    FuseMessage message{FUSE_INIT};
    message.with(std::uint32_t{7}).with(std::uint32_t{31}).with(std::uint32_t{131072}).with(std::uint32_t{5});
    ASSERT_TRUE(decode(message, decoded));
    EXPECT_EQ(decoded.fixed<fuse_init_in>().minor, 31U);
    EXPECT_EQ(decoded.fixed<fuse_init_in>().flags, 5U);
    EXPECT_EQ(decoded.fixed<fuse_init_in>().flags2, 0U);
}

} // namespace
} // namespace viaduct::fuse
