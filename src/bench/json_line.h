// SPDX-License-Identifier: Apache-2.0
//
// One JSON object on one line.
#pragma once

#include <concepts>
#include <cstdio>
#include <string>
#include <string_view>

namespace viaduct::bench {

class JsonLine {
public:
    JsonLine& add(std::string_view key, std::string_view value);
    JsonLine& add(std::string_view key, const char* value) { return add(key, std::string_view{value}); }
    JsonLine& add(std::string_view key, bool value) { return add_raw(key, value ? "true" : "false"); }
    JsonLine& add(std::string_view key, std::integral auto value) {
        return add_raw(key, std::to_string(value));
    }
    // With so many places behind the point; what is no number becomes null.
    JsonLine& add(std::string_view key, double value, int places);

    // "{...}\n".
    std::string text() const { return "{" + members_ + "}\n"; }

private:
    JsonLine& add_raw(std::string_view key, std::string_view value);

    std::string members_;
};

// With its quotes.
std::string json_string(std::string_view text);

} // namespace viaduct::bench
