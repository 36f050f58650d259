// SPDX-License-Identifier: Apache-2.0
//
// What calls of the library give back: a value, or why there is none.
//
// Nothing in here throws; memory that cannot be allocated ends the program, as everywhere in Viaduct.
#pragma once

#include <expected>
#include <string>
#include <system_error>

namespace viaduct::client {

// The code is an errno value in std::generic_category(), so `result.error() == std::errc::not_connected` and
// `result.error().message()` work.
template <class T> using Result = std::expected<T, std::error_code>;
using Status = Result<void>;

// A sentence for a person: what failed, with which error, and the way out.
struct Failure {
    std::string message;
};

} // namespace viaduct::client
