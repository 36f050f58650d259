// SPDX-License-Identifier: Apache-2.0
#include "guestvm/trailer.h"

#include <gtest/gtest.h>

namespace viaduct::guestvm {
namespace {

TEST(Trailer, stream_cut_anywhere_gives_the_same_bytes) {
    const std::string stream = "a<en<<end>b<end 12>";
    for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
        TrailerFilter filter{"<end 12>"};
        std::string out;
        for (std::size_t at = 0; at < stream.size(); at += piece) {
            EXPECT_FALSE(filter.complete());
            filter.feed(std::string_view{stream}.substr(at, piece), out);
        }
        EXPECT_TRUE(filter.complete());
        EXPECT_EQ(out, "a<en<<end>b") << "pieces of " << piece;
    }
}

TEST(Trailer, bytes_are_held_back_only_while_they_may_be_the_trailer) {
    TrailerFilter filter{"<end>"};
    std::string out;
    filter.feed("line\n", out);
    EXPECT_EQ(out, "line\n");
    filter.feed("<en", out);
    EXPECT_EQ(out, "line\n");
    filter.feed("x", out);
    EXPECT_EQ(out, "line\n<enx");
}

TEST(Trailer, what_follows_the_trailer_is_dropped) {
    TrailerFilter filter{"<end>"};
    std::string out;
    filter.feed("x<end>y", out);
    filter.feed("z", out);
    EXPECT_EQ(out, "x");
}

TEST(Trailer, two_runs_have_different_trailers) {
    EXPECT_NE(TrailerFilter::random_trailer(), TrailerFilter::random_trailer());
}

} // namespace
} // namespace viaduct::guestvm
