// SPDX-License-Identifier: Apache-2.0
#include "fuse/encode.h"

#include "support/fuse_message.h"

#include <gtest/gtest.h>
#include <sys/sysmacros.h>

namespace viaduct::fuse {
namespace {

template <class T> T at(const std::vector<std::byte>& memory, std::size_t offset) {
    T value;
    std::memcpy(&value, memory.data() + offset, sizeof value);
    return value;
}

TEST(Encode, header_carries_the_exact_length) {
    std::vector<std::byte> memory(64);
    const auto out = test::whole(memory);
    EXPECT_EQ(reply(out, 9, fuse_write_out{.size = 5, .padding = 0}), 24U);
    EXPECT_EQ(at<fuse_out_header>(memory, 0).len, 24U);
    EXPECT_EQ(at<fuse_out_header>(memory, 0).error, 0);
    EXPECT_EQ(at<fuse_out_header>(memory, 0).unique, 9U);
    EXPECT_EQ(at<fuse_write_out>(memory, 16).size, 5U);

    EXPECT_EQ(reply_bytes(out, 9, "target", 6), 22U);
    EXPECT_EQ(at<fuse_out_header>(memory, 0).len, 22U);
    EXPECT_EQ(reply_done(out, 9), 16U);
    EXPECT_EQ(at<fuse_out_header>(memory, 0).len, 16U);
}

TEST(Encode, reply_is_the_same_in_room_cut_anywhere) {
    for (std::size_t first = 1; first < 40; ++first) {
        std::vector<std::byte> memory(40);
        const auto out = test::cut(memory, first, 1);
        ASSERT_EQ(reply(out, 9, fuse_lseek_out{.offset = 0x1122334455667788}), 24U);
        EXPECT_EQ(at<fuse_lseek_out>(memory, 16).offset, 0x1122334455667788U);
    }
}

TEST(Encode, errors_are_negative_and_within_what_clients_take) {
    std::vector<std::byte> memory(16);
    const auto out = test::whole(memory);
    for (const int error : {1, ENOENT, ESTALE, EUCLEAN, 511}) {
        EXPECT_EQ(reply_error(out, 1, error), 16U);
        EXPECT_EQ(at<fuse_out_header>(memory, 0).error, -error);
    }
    for (const int error : {0, -5, 512, 4095}) {
        EXPECT_EQ(reply_error(out, 1, error), 16U);
        EXPECT_EQ(at<fuse_out_header>(memory, 0).error, -EIO);
    }
}

TEST(Encode, reply_that_does_not_fit_becomes_an_error_and_one_without_room_nothing) {
    std::vector<std::byte> small(20);
    EXPECT_EQ(reply(test::whole(small), 1, fuse_lseek_out{}), 16U);
    EXPECT_EQ(at<fuse_out_header>(small, 0).error, -EIO);
    EXPECT_EQ(reply_bytes(test::whole(small), 1, "12345", 5), 16U);
    EXPECT_EQ(at<fuse_out_header>(small, 0).error, -EIO);

    std::vector<std::byte> none(15);
    EXPECT_EQ(reply_error(test::whole(none), 1, EIO), 0U);
    EXPECT_EQ(reply_bytes(test::whole(none), 1, "x", 1), 0U);
    EXPECT_EQ(reply_done({}, 1), 0U);
}

TEST(Encode, device_numbers_survive_the_way_and_back) {
    for (const auto& [major, minor] : {std::pair{0U, 0U}, {8U, 1U}, {259U, 300U}, {4095U, 0xfffffU}}) {
        const std::uint32_t wire = encode_device(major, minor);
        EXPECT_EQ(device_major(wire), major);
        EXPECT_EQ(device_minor(wire), minor);
        EXPECT_EQ(wire, static_cast<std::uint32_t>(makedev(major, minor)));
    }
}

TEST(DirentPacker, entries_are_padded_to_eight_bytes) {
    std::vector<std::byte> memory(16 + 200);
    const auto out = test::whole(memory);
    DirentPacker packer{out, false, 200};
    ASSERT_TRUE(packer.add("abc", 42, 7, 8, nullptr));
    EXPECT_EQ(packer.packed_bytes(), 32U);
    ASSERT_TRUE(packer.add("12345678", 43, 8, 4, nullptr));
    EXPECT_EQ(packer.packed_bytes(), 64U);
    const auto first = at<fuse_dirent>(memory, 16);
    EXPECT_EQ(first.ino, 42U);
    EXPECT_EQ(first.off, 7U);
    EXPECT_EQ(first.namelen, 3U);
    EXPECT_EQ(first.type, 8U);
    EXPECT_EQ(std::memcmp(memory.data() + 40, "abc\0\0\0\0\0", 8), 0);
    EXPECT_EQ(at<fuse_dirent>(memory, 48).ino, 43U);
}

TEST(DirentPacker, never_goes_beyond_size_or_room_and_says_so_before) {
    for (std::size_t size = 0; size <= 400; ++size) {
        for (const bool plus : {false, true}) {
            std::vector<std::byte> memory(16 + 300);
            const auto out = test::whole(memory);
            DirentPacker packer{out, plus, size};
            const fuse_entry_out entry{};
            std::size_t count = 0;
            while (true) {
                const bool room = packer.has_room(5);
                ASSERT_EQ(packer.add("name5", 1, 1, 8, &entry), room);
                if (!room) break;
                ++count;
            }
            const std::size_t each = plus ? 160 : 32;
            EXPECT_EQ(count, std::min<std::size_t>(size, 300) / each);
            EXPECT_EQ(packer.packed_bytes(), count * each);
        }
    }
}

TEST(DirentPacker, entry_that_was_not_looked_up_has_node_zero) {
    std::vector<std::byte> memory(16 + 400, std::byte{0xee});
    const auto out = test::whole(memory);
    DirentPacker packer{out, true, 400};
    fuse_entry_out entry{};
    entry.nodeid = 12;
    ASSERT_TRUE(packer.add(".", 1, 1, 4, nullptr));
    ASSERT_TRUE(packer.add("x", 2, 2, 8, &entry));
    EXPECT_EQ(at<fuse_entry_out>(memory, 16).nodeid, 0U);
    EXPECT_EQ(at<fuse_dirent>(memory, 16 + 128).ino, 1U);
    EXPECT_EQ(at<fuse_entry_out>(memory, 16 + 160).nodeid, 12U);
}

TEST(DirentPacker, longest_name_fits_and_a_longer_one_is_refused) {
    std::vector<std::byte> memory(16 + 1024);
    const auto out = test::whole(memory);
    DirentPacker packer{out, true, 1024};
    const fuse_entry_out entry{};
    EXPECT_TRUE(packer.add(std::string(255, 'n'), 1, 1, 8, &entry));
    EXPECT_EQ(packer.packed_bytes(), 408U);
    EXPECT_FALSE(packer.add(std::string(256, 'n'), 1, 1, 8, &entry));
}

TEST(DirentPacker, room_without_a_header_takes_nothing) {
    std::vector<std::byte> memory(10);
    const auto out = test::whole(memory);
    DirentPacker packer{out, false, 4096};
    EXPECT_FALSE(packer.has_room(1));
    EXPECT_FALSE(packer.add("a", 1, 1, 8, nullptr));
}

} // namespace
} // namespace viaduct::fuse
