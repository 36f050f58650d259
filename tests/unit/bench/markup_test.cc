// SPDX-License-Identifier: Apache-2.0
#include "bench/markup.h"

#include <gtest/gtest.h>

namespace viaduct::bench {
namespace {

TEST(Markup, the_five_characters_of_markup_become_entities) {
    EXPECT_EQ(escaped(R"(<a href="x">Tom & 'Jerry'</a>)"),
              "&lt;a href=&quot;x&quot;&gt;Tom &amp; &#39;Jerry&#39;&lt;/a&gt;");
}

TEST(Markup, text_of_every_length_of_character_stays_as_it_is) {
    EXPECT_EQ(escaped("a µ – 😀\t\n"), "a µ – 😀\t\n");
}

TEST(Markup, bytes_that_are_not_utf8_are_replaced_one_by_one) {
    EXPECT_EQ(escaped("a\xff"
                      "b"),
              "a\ufffdb");
    EXPECT_EQ(escaped("\xc3"), "\ufffd");                               // ends too early
    EXPECT_EQ(escaped("\xc0\xbc"), "\ufffd\ufffd");                     // a long form of '<'
    EXPECT_EQ(escaped("\xe0\x80\xbc"), "\ufffd\ufffd\ufffd");           // the same in three
    EXPECT_EQ(escaped("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");           // a surrogate
    EXPECT_EQ(escaped("\xf4\x90\x80\x80"), "\ufffd\ufffd\ufffd\ufffd"); // above U+10FFFF
    EXPECT_EQ(escaped("\xe2\x82<"), "\ufffd\ufffd&lt;");                // what follows is not swallowed
}

TEST(Markup, characters_that_xml_does_not_have_are_replaced) {
    EXPECT_EQ(escaped(std::string_view{"a\0b\x01\x1b", 5}), "a\ufffdb\ufffd\ufffd");
    EXPECT_EQ(escaped("\xef\xbf\xbf"), "\ufffd"); // U+FFFF
}

TEST(Markup, an_element_has_its_text_escaped_and_its_attributes_as_they_are) {
    EXPECT_EQ(element("td", "a<b", R"( class="x")"), R"(<td class="x">a&lt;b</td>)");
}

} // namespace
} // namespace viaduct::bench
