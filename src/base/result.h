// SPDX-License-Identifier: Apache-2.0
//
// Result: a value or an errno; Outcome: a value or a sentence for a person.
//
// Result is what system calls, peers and guests give; it is passed up until someone can act.  Outcome is for
// start-up, options and configuration, where the reader is an operator: the sentence names what failed, with
// which error, and the way out.
#pragma once

#include <cerrno>
#include <expected>
#include <string>
#include <utility>

namespace viaduct {

// A positive errno value.
class Errno {
public:
    constexpr explicit Errno(int value) noexcept : value_(value) {}
    constexpr int value() const noexcept { return value_; }
    // "ENOENT"; "errno 4095" for numbers without a name.
    std::string name() const;
    // "No such file or directory".
    std::string text() const;
    friend constexpr bool operator==(Errno, Errno) noexcept = default;

private:
    int value_;
};

template <class T> using Result = std::expected<T, Errno>;
using Status = Result<void>;

constexpr std::unexpected<Errno> fail(int error) noexcept {
    return std::unexpected{Errno{error}};
}
constexpr std::unexpected<Errno> fail(Errno error) noexcept {
    return std::unexpected{error};
}

// A sentence for the person who started the program.
struct Failure {
    std::string message;
    // Exit status that goes with it: 2 for a mistake on the command line or in the configuration.
    int exit_status = 1;
};

template <class T> using Outcome = std::expected<T, Failure>;

inline std::unexpected<Failure> failure(std::string message) {
    return std::unexpected{Failure{.message = std::move(message)}};
}
// "`what`: ENOENT (No such file or directory)`hint`".
std::unexpected<Failure> failure(const std::string& what, Errno error, const std::string& hint = {});
inline std::unexpected<Failure> usage_failure(std::string message) {
    return std::unexpected{Failure{.message = std::move(message), .exit_status = 2}};
}

} // namespace viaduct

#define VIADUCT_CONCAT_INNER(a, b) a##b
#define VIADUCT_CONCAT(a, b) VIADUCT_CONCAT_INNER(a, b)

// TRY(const int fd, open_it(path)): the value, or return the error of a Result or Outcome.
#define TRY(declaration, expression)                                                                         \
    VIADUCT_TRY(declaration, expression, VIADUCT_CONCAT(try_, __LINE__), return)
// The same in a coroutine.
#define CO_TRY(declaration, expression)                                                                      \
    VIADUCT_TRY(declaration, expression, VIADUCT_CONCAT(try_, __LINE__), co_return)
#define VIADUCT_TRY(declaration, expression, name, leave)                                                    \
    auto name = (expression);                                                                                \
    if (!name) leave ::std::unexpected{::std::move(name).error()};                                           \
    declaration = *::std::move(name)

// TRY_STATUS(close_it(fd)): for results without a value.
#define TRY_STATUS(expression) VIADUCT_TRY_STATUS(expression, VIADUCT_CONCAT(try_, __LINE__), return)
#define CO_TRY_STATUS(expression) VIADUCT_TRY_STATUS(expression, VIADUCT_CONCAT(try_, __LINE__), co_return)
#define VIADUCT_TRY_STATUS(expression, name, leave)                                                          \
    if (auto name = (expression); !name) leave ::std::unexpected {                                           \
            ::std::move(name).error()                                                                        \
        }
