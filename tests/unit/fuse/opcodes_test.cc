// SPDX-License-Identifier: Apache-2.0
#include "fuse/opcodes.h"

#include "fuse/protocol.h"

#include <gtest/gtest.h>
#include <set>
#include <string>

namespace viaduct::fuse {
namespace {

TEST(Opcodes, every_number_of_the_protocol_has_a_verdict) {
    const std::set<std::uint32_t> unassigned{0, 7, 19};
    for (std::uint32_t number = 0; number < kOpcodeCount; ++number) {
        EXPECT_EQ(opcode(number).number, number);
        EXPECT_EQ(opcode(number).verdict == Verdict::unknown, unassigned.contains(number)) << number;
    }
    EXPECT_EQ(kOpcodeCount, FUSE_COPY_FILE_RANGE_64 + 1U);
    EXPECT_EQ(opcode(CUSE_INIT).verdict, Verdict::refused);
    EXPECT_EQ(opcode(CUSE_INIT_BSWAP_RESERVED).verdict, Verdict::refused);
    EXPECT_EQ(opcode(FUSE_INIT_BSWAP_RESERVED).verdict, Verdict::refused);
}

TEST(Opcodes, a_refusal_says_why) {
    for (const Opcode& entry : opcodes()) {
        EXPECT_EQ(entry.verdict == Verdict::refused, std::string{entry.reason} != "") << entry.name;
    }
}

TEST(Opcodes, names_are_unique) {
    std::set<std::string> names;
    for (const Opcode& entry : opcodes()) {
        if (entry.verdict != Verdict::unknown) EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    }
}

TEST(Opcodes, numbers_that_are_no_opcode_are_unknown) {
    for (const std::uint32_t number : {0U, 7U, 19U, 54U, 9999U, 0xffffffffU})
        EXPECT_EQ(opcode(number).verdict, Verdict::unknown) << number;
}

TEST(Opcodes, only_these_have_no_reply) {
    std::set<std::string> silent;
    for (const Opcode& entry : opcodes()) {
        if (!entry.has_reply) silent.insert(entry.name);
    }
    EXPECT_EQ(silent, (std::set<std::string>{"FORGET", "BATCH_FORGET", "INTERRUPT", "NOTIFY_REPLY"}));
}

TEST(Opcodes, fixed_parts_have_the_size_of_the_kernels_structs) {
    EXPECT_EQ(opcode(FUSE_WRITE).in_bytes_max, 40);
    EXPECT_EQ(opcode(FUSE_SETATTR).in_bytes_max, 88);
    EXPECT_EQ(opcode(FUSE_SETXATTR).in_bytes_min, 8);
    EXPECT_EQ(opcode(FUSE_SETXATTR).in_bytes_max, 16);
    EXPECT_EQ(opcode(FUSE_INIT).in_bytes_max, 64);
    EXPECT_EQ(opcode(FUSE_COPY_FILE_RANGE).in_bytes_max, 56);
    EXPECT_EQ(opcode(FUSE_SETLKW).in_bytes_max, 48);
    EXPECT_EQ(opcode(FUSE_GETLK).reply_bytes, 24);
    EXPECT_EQ(opcode(FUSE_CREATE).reply_bytes, 144);
    EXPECT_EQ(opcode(FUSE_LOOKUP).reply_bytes, 128);
    EXPECT_EQ(opcode(FUSE_GETATTR).reply_bytes, 104);
    EXPECT_EQ(opcode(FUSE_STATX).reply_bytes, 288);
}

} // namespace
} // namespace viaduct::fuse
