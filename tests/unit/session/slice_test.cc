// SPDX-License-Identifier: Apache-2.0
#include "session/call.h"

#include "support/fuse_message.h"

#include <gtest/gtest.h>

namespace viaduct::session {
namespace {

TEST(Slice, every_part_of_every_cut_holds_the_same_bytes) {
    std::vector<std::byte> memory(40);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<std::byte>(i);
    std::vector<iovec> scratch;
    for (std::size_t piece = 1; piece <= 40; ++piece) {
        const auto all = test::cut(memory, 0, piece);
        for (std::size_t skip = 0; skip <= 40; ++skip) {
            for (std::size_t bytes = 0; bytes <= 41; ++bytes) {
                const Segments part = slice(all, skip, bytes, scratch);
                const std::size_t expected = std::min(bytes, 40 - skip);
                ASSERT_EQ(segments_bytes(part), expected);
                std::vector<std::byte> copied(expected);
                SegmentReader{part}.copy(copied.data(), expected);
                ASSERT_TRUE(std::equal(copied.begin(), copied.end(),
                                       memory.begin() + static_cast<std::ptrdiff_t>(skip)));
            }
        }
    }
}

TEST(Slice, between_two_segments_nothing_is_copied) {
    std::vector<std::byte> memory(64);
    const auto all = test::cut(memory, 16, 16);
    std::vector<iovec> scratch;
    const Segments rest = slice(all, 16, 1000, scratch);
    EXPECT_EQ(rest.data(), all.data() + 1);
    EXPECT_EQ(rest.size(), 3U);
    EXPECT_EQ(slice(all, 16, 32, scratch).data(), all.data() + 1);
    EXPECT_TRUE(scratch.empty());
    EXPECT_EQ(slice(all, 16, 33, scratch).data(), scratch.data());
}

} // namespace
} // namespace viaduct::session
