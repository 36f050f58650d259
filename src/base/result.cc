// SPDX-License-Identifier: Apache-2.0
#include "base/result.h"

#include <cstring>

namespace viaduct {

std::string Errno::name() const {
    const char* const known = ::strerrorname_np(value_);
    return known != nullptr ? known : "errno " + std::to_string(value_);
}

std::string Errno::text() const {
    return ::strerrordesc_np(value_) ? ::strerrordesc_np(value_) : "unknown error";
}

std::unexpected<Failure> failure(const std::string& what, Errno error, const std::string& hint) {
    std::string message = what + ": " + error.name() + " (" + error.text() + ")";
    if (!hint.empty()) message += "; " + hint;
    return failure(std::move(message));
}

} // namespace viaduct
