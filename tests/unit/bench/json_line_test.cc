// SPDX-License-Identifier: Apache-2.0
#include "bench/json_line.h"

#include <cmath>
#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

TEST(JsonLine, holds_what_was_added_in_that_order) {
    JsonLine line;
    line.add("name", "a").add("on", true).add("count", 3U).add("ratio", 1.0 / 3, 2);
    EXPECT_EQ(line.text(), "{\"name\":\"a\",\"on\":true,\"count\":3,\"ratio\":0.33}\n");
}

TEST(JsonLine, text_is_escaped_and_what_is_no_number_is_null) {
    JsonLine line;
    line.add("path", "a\"b\\c\nd").add("none", std::nan(""), 1);
    EXPECT_EQ(line.text(), "{\"path\":\"a\\\"b\\\\c\\u000ad\",\"none\":null}\n");
}

} // namespace
} // namespace viaduct::bench
