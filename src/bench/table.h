// SPDX-License-Identifier: Apache-2.0
//
// A table of HTML that scrolls within itself where the page is narrow.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace viaduct::bench {

struct Table {
    std::string caption;
    std::vector<std::string> head;
    std::vector<std::vector<std::string>> rows; // as long as the head; plain text
    std::size_t text_columns = 1;               // the first ones; the others are figures, to the right
};

// Columns that are a dash in every row are left out.
std::string markup_of(const Table& table);

} // namespace viaduct::bench
