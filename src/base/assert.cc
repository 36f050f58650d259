// SPDX-License-Identifier: Apache-2.0
#include "base/assert.h"

#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace viaduct {
namespace {

void put(const char* text) noexcept {
    // Nothing can be done about a failing stderr on the way to abort().
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
}

} // namespace

void assertion_failed(const char* condition, const char* file, int line) noexcept {
    char digits[12];
    char* cursor = digits + sizeof digits;
    *--cursor = '\0';
    do {
        *--cursor = static_cast<char>('0' + line % 10);
        line /= 10;
    } while (line > 0);
    put("viaduct: assertion failed: ");
    put(condition);
    put(" at ");
    put(file);
    put(":");
    put(cursor);
    put("\n");
    std::abort();
}

} // namespace viaduct
