// SPDX-License-Identifier: Apache-2.0
//
// Text for HTML and XML.
#pragma once

#include <string>
#include <string_view>

namespace viaduct::bench {

// Good between tags and in attributes of HTML and XML 1.0: the five characters of markup become entities;
// bytes that are not UTF-8 and characters that XML does not have become U+FFFD.
std::string escaped(std::string_view text);

// <name>escaped text</name>; `attributes` is markup already, with a space before it.
std::string element(std::string_view name, std::string_view text, std::string_view attributes = {});

} // namespace viaduct::bench
