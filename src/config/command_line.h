// SPDX-License-Identifier: Apache-2.0
//
// A command line: options with their help, values that are checked, errors of one sentence.
//
// Every error names the option, the value and what would be right.  `--option value` and `--option=value` are
// the same; giving an option again overrides.  CLI11 does the tokenizing and is used by command_line.cc
// alone.
#pragma once

#include "base/result.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace viaduct::config {

// What the command line asks for besides running.
enum class Request { run, help, version };

// What `option` was given as a time; the failure names both.
Outcome<std::chrono::milliseconds> checked_duration(const std::string& option, const std::string& word,
                                                    std::chrono::milliseconds min);

class CommandLine {
public:
    // `usage`: what follows the program's name in the help.
    CommandLine(std::string program, std::string usage, std::string description);
    ~CommandLine();

    // `names` as "--queues" or "-s,--socket"; `value` is the placeholder in the help.
    void text(const std::string& names, std::string& target, const std::string& value,
              const std::string& help);
    void texts(const std::string& names, std::vector<std::string>& target, const std::string& value,
               const std::string& help);
    void number(const std::string& names, std::uint64_t& target, std::uint64_t min, std::uint64_t max,
                const std::string& value, const std::string& help);
    // Bytes, as config/size.h reads them.
    void size(const std::string& names, std::uint64_t& target, std::uint64_t min, std::uint64_t max,
              const std::string& help);
    void duration(const std::string& names, std::chrono::milliseconds& target, std::chrono::milliseconds min,
                  const std::string& help);
    // Without a value of its own.
    void duration(const std::string& names, std::optional<std::chrono::milliseconds>& target,
                  const std::string& help);
    // `--name` alone means `implied`; a value comes behind "=" and never as the next word.
    void optional_text(const std::string& name, std::string& target, const std::string& implied,
                       const std::string& value, const std::string& help);
    void choice(const std::string& names, std::string& target, std::vector<std::string> choices,
                const std::string& help);
    void flag(const std::string& names, bool& target, const std::string& help);
    // A flag that turns `target` off.
    void negative_flag(const std::string& names, bool& target, const std::string& help);
    // A flag that stands for another option with `implied` as its value.
    void alias(const std::string& name, std::string& target, const std::string& implied,
               const std::string& help);
    // An option that other daemons have and this program refuses by name, with the reason.
    void refused(const std::string& name, bool takes_value, const std::string& reason);
    // What stands behind "--", or positional words; no option comes after the first of them.
    void rest(std::vector<std::string>& target, const std::string& value, const std::string& help);

    // Positional words, before, behind and between options.
    void words(std::vector<std::string>& target, const std::string& value, const std::string& help);

    // exit_status 2 on a mistake.
    Outcome<Request> parse(int argc, const char* const* argv);
    bool given(const std::string& name) const;
    std::string help() const;

private:
    std::string missing_value(int argc, const char* const* argv) const;

    struct State;
    std::unique_ptr<State> state_;
};

} // namespace viaduct::config
