// SPDX-License-Identifier: Apache-2.0
#include "base/segments.h"

#include "base/log.h"

#include <gtest/gtest.h>
#include <string>

namespace viaduct {
namespace {

std::vector<iovec> cut(std::string& text, std::size_t piece) {
    std::vector<iovec> segments;
    for (std::size_t at = 0; at < text.size(); at += piece)
        segments.push_back({text.data() + at, std::min(piece, text.size() - at)});
    return segments;
}

TEST(Segments, reading_gives_the_same_bytes_however_they_are_cut) {
    for (std::size_t piece = 1; piece <= 11; ++piece) {
        std::string text = "hello world";
        const auto segments = cut(text, piece);
        SegmentReader reader{segments};
        char head[5];
        ASSERT_EQ(reader.copy(head, 5), 5U);
        EXPECT_EQ(std::string(head, 5), "hello");
        EXPECT_EQ(reader.remaining(), 6U);
        std::vector<iovec> rest;
        reader.remaining_segments(4, rest);
        EXPECT_EQ(segments_bytes(rest), 4U);
        EXPECT_EQ(*static_cast<char*>(rest.front().iov_base), ' ');
        char tail[16];
        EXPECT_EQ(reader.copy(tail, sizeof tail), 6U);
    }
}

TEST(Segments, writing_stops_where_the_room_ends) {
    std::string room(7, '.');
    const auto segments = cut(room, 3);
    SegmentWriter writer{segments};
    EXPECT_EQ(writer.write("ab", 2), 2U);
    EXPECT_EQ(writer.skip(1), 1U);
    EXPECT_EQ(writer.write("cdefgh", 6), 4U);
    EXPECT_EQ(room, "ab.cdef");
    EXPECT_EQ(writer.room(), 0U);
}

TEST(Result, failure_names_the_error_and_the_way_out) {
    const auto error = failure("open /x", Errno{EACCES}, "is it yours?").error();
    EXPECT_EQ(error.message, "open /x: EACCES (Permission denied); is it yours?");
    EXPECT_EQ(error.exit_status, 1);
    EXPECT_EQ(Errno{4095}.name(), "errno 4095");
}

TEST(Log, format_replaces_braces_in_order_and_keeps_what_has_no_argument) {
    EXPECT_EQ(log::format("{}-{} {}", {"a", "b"}), "a-b {}");
}

} // namespace
} // namespace viaduct
