// SPDX-License-Identifier: Apache-2.0
#include "bench/json_line.h"

#include <array>
#include <cmath>

namespace viaduct::bench {

std::string json_string(std::string_view text) {
    std::string quoted = "\"";
    for (const char byte : text) {
        if (byte == '"' || byte == '\\') {
            quoted += '\\';
            quoted += byte;
        } else if (static_cast<unsigned char>(byte) < 0x20) {
            std::array<char, 8> code{};
            std::snprintf(code.data(), code.size(), "\\u%04x", static_cast<unsigned>(byte));
            quoted += code.data();
        } else {
            quoted += byte;
        }
    }
    return quoted + '"';
}

JsonLine& JsonLine::add_raw(std::string_view key, std::string_view value) {
    if (!members_.empty()) members_ += ',';
    members_ += json_string(key);
    members_ += ':';
    members_ += value;
    return *this;
}

JsonLine& JsonLine::add(std::string_view key, std::string_view value) {
    return add_raw(key, json_string(value));
}

JsonLine& JsonLine::add(std::string_view key, double value, int places) {
    if (!std::isfinite(value)) return add_raw(key, "null");
    std::array<char, 64> digits{};
    std::snprintf(digits.data(), digits.size(), "%.*f", places, value);
    return add_raw(key, digits.data());
}

} // namespace viaduct::bench
