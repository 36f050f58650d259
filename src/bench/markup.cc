// SPDX-License-Identifier: Apache-2.0
#include "bench/markup.h"

#include <cstddef>
#include <cstdint>

namespace viaduct::bench {
namespace {

struct Character {
    std::uint32_t code = 0;
    std::size_t bytes = 0; // 0: no UTF-8
};

// The first character of a text that is not empty (RFC 3629, section 4).
Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t index) { return static_cast<unsigned char>(text[index]); };
    const unsigned lead = byte(0);
    if (lead < 0x80) return {lead, 1};
    const std::size_t bytes = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc2 || lead > 0xf4 || text.size() < bytes) return {};
    std::uint32_t code = lead & (0x7fU >> bytes);
    for (std::size_t index = 1; index < bytes; ++index) {
        if ((byte(index) & 0xc0U) != 0x80) return {};
        code = code << 6 | (byte(index) & 0x3fU);
    }
    constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x1'0000};
    if (code < kLeast[bytes] || code > 0x10'ffff || (code >= 0xd800 && code <= 0xdfff)) return {};
    return {code, bytes};
}

// Char of XML 1.0, section 2.2.
bool in_xml(std::uint32_t code) {
    return code >= 0x20 ? code != 0xfffe && code != 0xffff : code == '\t' || code == '\n' || code == '\r';
}

} // namespace

std::string escaped(std::string_view text) {
    std::string result;
    result.reserve(text.size() + 16);
    while (!text.empty()) {
        const Character character = first_character(text);
        const std::size_t bytes = character.bytes == 0 ? 1 : character.bytes;
        if (character.bytes == 0 || !in_xml(character.code)) {
            result += "\ufffd";
        } else {
            switch (character.code) {
            case '&':
                result += "&amp;";
                break;
            case '<':
                result += "&lt;";
                break;
            case '>':
                result += "&gt;";
                break;
            case '"':
                result += "&quot;";
                break;
            case '\'':
                result += "&#39;";
                break;
            default:
                result += text.substr(0, bytes);
            }
        }
        text.remove_prefix(bytes);
    }
    return result;
}

std::string element(std::string_view name, std::string_view text, std::string_view attributes) {
    std::string result{"<"};
    result.append(name).append(attributes).append(">").append(escaped(text));
    return result.append("</").append(name).append(">");
}

} // namespace viaduct::bench
