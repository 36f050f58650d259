// SPDX-License-Identifier: Apache-2.0
//
// Sentences for log lines.
#pragma once

#include "base/log.h"

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace viaduct::vhost {

template <class... Arguments> std::string sentence(std::string_view pattern, const Arguments&... arguments) {
    return log::format(pattern, {log::to_text(arguments)...});
}

inline std::string hex(std::uint64_t value) {
    char text[19];
    std::snprintf(text, sizeof text, "0x%" PRIx64, value);
    return text;
}

} // namespace viaduct::vhost
