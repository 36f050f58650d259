// SPDX-License-Identifier: Apache-2.0
#include "fuse/extensions.h"

#include "support/fuse_message.h"

#include <gtest/gtest.h>

namespace viaduct::fuse {
namespace {

using test::FuseMessage;
using Words = std::vector<std::uint32_t>;

// MKDIR of "d" with these words behind its name.
Result<Extensions> extensions_of(const Words& words, const Dialect& dialect = {}, bool announced = true,
                                 std::uint16_t more_units = 0) {
    FuseMessage message{FUSE_MKDIR};
    message.with(fuse_mkdir_in{}).with_string("d").with_bytes(words.data(), words.size() * 4);
    if (announced) message.with_extensions_claimed(static_cast<std::uint16_t>(words.size() / 2 + more_units));
    auto bytes = message.bytes();
    const auto segments = test::whole(bytes);
    Decoded request;
    TRY_STATUS(request.decode(segments, dialect));
    std::array<char, 2> name;
    TRY_STATUS(request.take_string(name));
    return take_extensions(request, dialect);
}

constexpr std::uint32_t kWord = 0x2e616161; // "aaa."
const Words kGroup{16, 32, 1, 4711};
// "aaa.aaa" and six bytes of context: header, context's header, 8 + 6 bytes, 2 of padding.
const Words kContext{32, 1, 6, 0, kWord, 0x00616161, 0x64636261, 0x00006665};

Words joined(Words first, const Words& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
}

TEST(Extensions, requests_may_have_none) {
    const auto none = extensions_of({});
    ASSERT_TRUE(none);
    EXPECT_FALSE(none->group);
    EXPECT_TRUE(none->context_name.empty());
    // Not announced, and no client that sends contexts unannounced: bytes that mean nothing.
    EXPECT_TRUE(extensions_of(kGroup, {}, false));
    EXPECT_FALSE(extensions_of(kGroup, {}, false)->group);
}

TEST(Extensions, group_and_context_come_in_any_order) {
    for (const Words& words : {joined(kGroup, kContext), joined(kContext, kGroup),
                               joined({16, 99, 1, 2}, joined(kContext, kGroup))}) { // with an unknown one
        const auto taken = extensions_of(words);
        ASSERT_TRUE(taken);
        EXPECT_EQ(taken->group, 4711U);
        EXPECT_EQ(taken->context_name, "aaa.aaa");
        ASSERT_EQ(taken->context.size(), 6U);
        EXPECT_EQ(std::memcmp(taken->context.data(), "abcdef", 6), 0);
    }
}

TEST(Extensions, context_of_an_older_client_is_not_announced) {
    EXPECT_EQ(extensions_of(kContext, {.security_context = true}, false)->context_name, "aaa.aaa");
    EXPECT_TRUE(extensions_of({8, 0}, {.security_context = true}, false)->context_name.empty());
    EXPECT_TRUE(extensions_of({}, {.security_context = true}, false));
}

TEST(Extensions, sizes_that_lie_are_refused) {
    for (const Words& words : {
             Words{7, 32, 1, 4711}, Words{24, 32, 1, 4711}, Words{12, 32, 1, 4711},
             Words{0xffffffff, 32, 1, 4711}, Words{16, 32, 0, 4711}, Words{16, 32, 2, 4711}, Words{8, 32},
             joined(kGroup, kGroup), joined(kContext, kContext), Words{8, 1}, Words{16, 1, 0, 0},
             Words{16, 2, 0, 0},
             Words{32, 1, 9, 0, kWord, 0x00616161, 0, 0},          // context longer than its extension
             Words{32, 1, 6, 0, kWord, kWord, kWord, kWord},       // name without an end
             Words{16, 1, 8, 0, kWord, 0x00616161, 1, 2},          // name behind its extension
             Words{32, 1, 6, 0, 0x61616100, 0x00616161, 0, 0},     // no name
             Words{32, 1, 0xffffffff, 0, kWord, 0x00616161, 0, 0}, //
         }) {
        const auto taken = extensions_of(words);
        ASSERT_FALSE(taken) << testing::PrintToString(words);
        EXPECT_TRUE(taken.error() == Errno{EINVAL} || taken.error() == Errno{E2BIG} ||
                    taken.error() == Errno{ENAMETOOLONG})
            << testing::PrintToString(words);
    }
    EXPECT_EQ(extensions_of(kGroup, {}, true, 1).error(), Errno{EINVAL});
    EXPECT_EQ(extensions_of(joined(kGroup, {0, 0}), {}, true).error(), Errno{EINVAL});
}

} // namespace
} // namespace viaduct::fuse
