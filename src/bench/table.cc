// SPDX-License-Identifier: Apache-2.0
#include "bench/table.h"

#include "base/assert.h"
#include "bench/markup.h"
#include "bench/units.h"

#include <algorithm>

namespace viaduct::bench {

std::string markup_of(const Table& table) {
    for (const auto& row : table.rows) ASSERT(row.size() == table.head.size());
    const std::string dash = fixed(kNoFigure, 0);
    std::vector<std::size_t> columns;
    for (std::size_t column = 0; column < table.head.size(); ++column) {
        const auto empty = [&](const auto& row) { return row[column] == dash; };
        if (column < table.text_columns || !std::ranges::all_of(table.rows, empty)) columns.push_back(column);
    }
    // The frame can be scrolled with the keyboard, so it has the focus and a name.
    std::string result = R"(<div class="scroll" tabindex="0" role="region" aria-label=")" +
                         escaped(table.caption) + "\"><table>\n" + element("caption", table.caption) +
                         "\n<thead><tr>";
    for (const std::size_t column : columns) {
        const bool text = column < table.text_columns;
        result +=
            element("th", table.head[column], text ? R"( scope="col" class="text")" : R"( scope="col")");
    }
    result += "</tr></thead>\n<tbody>\n";
    for (const auto& row : table.rows) {
        result += "<tr>";
        for (const std::size_t column : columns) {
            if (column == 0) {
                result += element("th", row[column], R"( scope="row" class="text")");
            } else {
                result += element("td", row[column], column < table.text_columns ? R"( class="text")" : "");
            }
        }
        result += "</tr>\n";
    }
    return result + "</tbody></table></div>\n";
}

} // namespace viaduct::bench
