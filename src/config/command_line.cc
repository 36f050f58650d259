// SPDX-License-Identifier: Apache-2.0
#include "config/command_line.h"

#include "config/size.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <functional>
#include <list>
#include <map>
#include <set>
#include <string_view>

namespace viaduct::config {
namespace {

std::string joined(const std::vector<std::string>& words) {
    std::string text;
    for (std::size_t index = 0; index < words.size(); ++index) {
        if (index > 0) text += index + 1 == words.size() ? " or " : ", ";
        text += words[index];
    }
    return text;
}

std::string long_name(const std::string& names) {
    return names.substr(names.rfind(',') + 1);
}

std::size_t distance(const std::string& a, const std::string& b) {
    std::vector<std::size_t> row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t above = row[j];
            row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1] ? 1U : 0U)});
            diagonal = above;
        }
    }
    return row.back();
}

} // namespace

struct CommandLine::State {
    CLI::App app;
    std::string program;
    std::string usage;
    // Values land here as words and are checked after parsing, so that the sentences are ours.
    std::list<std::string> words;
    std::list<bool> flags;
    std::vector<std::function<Outcome<void>()>> checks;
    std::vector<std::string> names;
    std::set<std::string> plain_flags;
    std::map<std::string, std::string> takers;  // option to placeholder
    std::map<std::string, std::string> implied; // option to the value that it has alone
    bool help = false;
    bool version = false;

    std::string* word(const std::string& option, const std::string& value, const std::string& text) {
        words.emplace_back();
        app.add_option(option, words.back(), text)
            ->type_name(value)
            ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
        names.push_back(long_name(option));
        takers.emplace(long_name(option), value);
        return &words.back();
    }
    // CLI11 counts what was given, so an empty value is seen as well.
    bool given(const std::string& name) const { return app.get_option(name)->count() > 0; }
};

Outcome<std::chrono::milliseconds> checked_duration(const std::string& option, const std::string& word,
                                                    std::chrono::milliseconds min) {
    const auto time = parse_duration(word);
    if (!time || *time < min)
        return usage_failure(option + " is \"" + word + "\"; it takes a time of at least " +
                             duration_text(min) + " (seconds, or with ms, s, m or h)");
    return *time;
}

CommandLine::CommandLine(std::string program, std::string usage, std::string description)
    : state_(std::make_unique<State>()) {
    state_->app.description(std::move(description));
    state_->app.set_help_flag();
    state_->app.name(program);
    state_->program = std::move(program);
    state_->usage = std::move(usage);
    state_->app.add_flag("-h,--help", state_->help, "Show this help and end");
    state_->app.add_flag("-V,--version", state_->version, "Show the version and end");
}

CommandLine::~CommandLine() = default;

void CommandLine::text(const std::string& names, std::string& target, const std::string& value,
                       const std::string& help) {
    const std::string* const word = state_->word(names, value, help);
    state_->checks.emplace_back([this, word, &target, name = long_name(names), value]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        if (word->empty()) return usage_failure(name + " is empty; it takes " + value);
        target = *word;
        return {};
    });
}

void CommandLine::texts(const std::string& names, std::vector<std::string>& target, const std::string& value,
                        const std::string& help) {
    state_->app.add_option(names, target, help)
        ->type_name(value)
        ->expected(1)
        ->allow_extra_args(false) // the next word is not a value of it
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
    state_->names.push_back(long_name(names));
}

void CommandLine::number(const std::string& names, std::uint64_t& target, std::uint64_t min,
                         std::uint64_t max, const std::string& value, const std::string& help) {
    const std::string* const word = state_->word(names, value, help + " [" + std::to_string(target) + "]");
    state_->checks.emplace_back([this, word, &target, name = long_name(names), min, max]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(word->data(), word->data() + word->size(), number);
        if (error != std::errc{} || end != word->data() + word->size() || number < min || number > max)
            return usage_failure(name + " is \"" + *word + "\"; it takes a whole number from " +
                                 std::to_string(min) + " to " + std::to_string(max));
        target = number;
        return {};
    });
}

void CommandLine::size(const std::string& names, std::uint64_t& target, std::uint64_t min, std::uint64_t max,
                       const std::string& help) {
    const std::string* const word = state_->word(names, "SIZE", help + " [" + size_text(target) + "]");
    state_->checks.emplace_back([this, word, &target, name = long_name(names), min, max]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        const auto bytes = parse_size(*word);
        if (!bytes || *bytes < min || *bytes > max)
            return usage_failure(name + " is \"" + *word + "\"; it takes a size from " + size_text(min) +
                                 " to " + size_text(max) + " (bytes, or with K, M or G)");
        target = *bytes;
        return {};
    });
}

void CommandLine::duration(const std::string& names, std::chrono::milliseconds& target,
                           std::chrono::milliseconds min, const std::string& help) {
    const std::string* const word = state_->word(names, "TIME", help + " [" + duration_text(target) + "]");
    state_->checks.emplace_back([this, word, &target, name = long_name(names), min]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        TRY(target, checked_duration(name, *word, min));
        return {};
    });
}

void CommandLine::duration(const std::string& names, std::optional<std::chrono::milliseconds>& target,
                           const std::string& help) {
    const std::string* const word = state_->word(names, "TIME", help);
    state_->checks.emplace_back([this, word, &target, name = long_name(names)]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        TRY(target, checked_duration(name, *word, std::chrono::milliseconds{0}));
        return {};
    });
}

void CommandLine::optional_text(const std::string& name, std::string& target, const std::string& implied,
                                const std::string& value, const std::string& help) {
    text(name, target, "[=" + value + "]", help);
    state_->implied.emplace(name, implied);
}

void CommandLine::choice(const std::string& names, std::string& target, std::vector<std::string> choices,
                         const std::string& help) {
    std::string placeholder;
    for (const auto& one : choices) placeholder.append(placeholder.empty() ? "" : "|").append(one);
    const std::string* const word =
        state_->word(names, placeholder, help + (target.empty() ? "" : " [" + target + "]"));
    state_->checks.emplace_back(
        [this, word, &target, name = long_name(names), choices = std::move(choices)]() -> Outcome<void> {
            if (!state_->given(name)) return {};
            if (std::ranges::find(choices, *word) == choices.end())
                return usage_failure(name + " is \"" + *word + "\"; it takes " + joined(choices));
            target = *word;
            return {};
        });
}

void CommandLine::flag(const std::string& names, bool& target, const std::string& help) {
    state_->plain_flags.insert(long_name(names));
    state_->app.add_flag(names, target, help)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
    state_->names.push_back(long_name(names));
}

void CommandLine::negative_flag(const std::string& names, bool& target, const std::string& help) {
    state_->flags.push_back(false);
    state_->plain_flags.insert(long_name(names));
    bool& seen = state_->flags.back();
    state_->app.add_flag(names, seen, help);
    state_->names.push_back(long_name(names));
    state_->checks.emplace_back([&seen, &target]() -> Outcome<void> {
        if (seen) target = false;
        return {};
    });
}

void CommandLine::alias(const std::string& name, std::string& target, const std::string& implied,
                        const std::string& help) {
    state_->flags.push_back(false);
    state_->plain_flags.insert(name);
    bool& seen = state_->flags.back();
    state_->app.add_flag(name, seen, help);
    state_->names.push_back(name);
    state_->checks.emplace_back([&seen, &target, implied]() -> Outcome<void> {
        if (seen) target = implied;
        return {};
    });
}

void CommandLine::refused(const std::string& name, bool takes_value, const std::string& reason) {
    // An empty group keeps it out of the help.
    if (takes_value) {
        state_->words.emplace_back();
        state_->app.add_option(name, state_->words.back())->group("")->expected(0, 1);
    } else {
        state_->flags.push_back(false);
        state_->app.add_flag(name, state_->flags.back())->group("");
    }
    state_->checks.emplace_back([this, name, reason]() -> Outcome<void> {
        if (!state_->given(name)) return {};
        return usage_failure(name + " is not supported: " + reason);
    });
}

void CommandLine::rest(std::vector<std::string>& target, const std::string& value, const std::string& help) {
    state_->app.add_option(value, target, help);
    state_->app.positionals_at_end();
}

void CommandLine::words(std::vector<std::string>& target, const std::string& value, const std::string& help) {
    state_->app.add_option(value, target, help)->type_name("");
}

// CLI11 says only that some option wants a value: the one that stands last, or before another option.
std::string CommandLine::missing_value(int argc, const char* const* argv) const {
    for (int index = 1; index < argc; ++index) {
        std::string word = argv[index];
        const bool empty = word.ends_with('=');
        if (empty) word.pop_back();
        const bool last = index + 1 == argc || std::string_view{argv[index + 1]}.starts_with("--");
        if (const auto taker = state_->takers.find(word); (last || empty) && taker != state_->takers.end())
            return word + " has no value; it takes " + taker->second;
    }
    return "an option has no value; see " + state_->program + " --help";
}

Outcome<Request> CommandLine::parse(int argc, const char* const* argv) {
    for (int index = 1; index < argc; ++index) {
        const std::string word = argv[index];
        const std::string name = word.substr(0, word.find('='));
        if (name.size() < word.size() && state_->plain_flags.contains(name))
            return usage_failure(name + " takes no value, but \"" + word.substr(name.size() + 1) +
                                 "\" was given");
    }
    std::vector<std::string> words; // from the last to the first, as CLI11 takes them
    for (int index = argc - 1; index > 0; --index) {
        const auto implied = state_->implied.find(argv[index]);
        words.push_back(implied == state_->implied.end() ? argv[index]
                                                         : implied->first + "=" + implied->second);
    }
    try {
        state_->app.parse(std::move(words));
    } catch (const CLI::ExtrasError&) {
        for (const std::string& word : state_->app.remaining()) {
            const std::string option = word.substr(0, word.find('='));
            const auto nearest = std::ranges::min_element(
                state_->names, {}, [&option](const std::string& name) { return distance(option, name); });
            std::string hint = "see " + state_->program + " --help";
            if (nearest != state_->names.end() && distance(option, *nearest) <= 3)
                hint = "did you mean " + *nearest + "?";
            return usage_failure(
                std::string{"there is no option \""}.append(word).append("\"; ").append(hint));
        }
        return usage_failure("too many words; see " + state_->program + " --help");
    } catch (const CLI::ArgumentMismatch&) {
        return usage_failure(missing_value(argc, argv));
    } catch (const CLI::ParseError& error) {
        return usage_failure(std::string{error.what()} + "; see " + state_->program + " --help");
    }
    if (state_->help) return Request::help;
    if (state_->version) return Request::version;
    for (const auto& check : state_->checks) TRY_STATUS(check());
    return Request::run;
}

bool CommandLine::given(const std::string& name) const {
    return state_->given(name);
}

std::string CommandLine::help() const {
    std::string text = state_->app.help();
    constexpr std::string_view kOptional = " [=";
    for (std::size_t at = text.find(kOptional); at != std::string::npos; at = text.find(kOptional, at))
        text.insert(text.find(']', at) + 1, 1, ' ').erase(at, 1);
    // CLI11's own usage line says less than ours.
    const std::size_t begin = text.find("Usage:");
    if (begin == std::string::npos) return text;
    const std::size_t end = text.find('\n', begin);
    return text.replace(begin, end - begin, "Usage: " + state_->program + " " + state_->usage);
}

} // namespace viaduct::config
