// SPDX-License-Identifier: Apache-2.0
#include "config/mount_helper.h"

#include <algorithm>
#include <array>

namespace viaduct::config {
namespace {

// For `viaduct mount -o`.
constexpr std::array kKernelOptions{
    "ro",      "rw",    "allow_other",         "suid",    "nosuid", "dev", "nodev", "exec", "noexec",
    "noatime", "atime", "default_permissions", "defaults"};
constexpr std::array kWithValues{"max_read", "entry_timeout", "attr_timeout", "negative_timeout"};
// Of fstab, of mount(8), and those that say what is so anyway.
constexpr std::array kLeftOut{"auto",   "noauto",     "user",          "nouser",    "users",    "owner",
                              "group",  "nofail",     "_netdev",       "relatime",  "diratime", "async",
                              "silent", "norelatime", "nostrictatime", "nolazytime"};

constexpr bool is_one_of(const auto& names, std::string_view name) {
    return std::ranges::any_of(names, [name](const char* known) { return name == known; });
}

void add_option(const std::string& option, std::vector<std::string>& words) {
    const std::size_t equals = option.find('=');
    const std::string name = option.substr(0, equals);
    if (option.empty() || is_one_of(kLeftOut, name) || name.starts_with("x-") || name == "comment") return;
    if (is_one_of(kKernelOptions, option) || is_one_of(kWithValues, name)) {
        words.insert(words.end(), {"-o", option});
        return;
    }
    words.push_back("--" + name);
    if (equals != std::string::npos) words.push_back(option.substr(equals + 1));
}

void add_options(std::string_view list, std::vector<std::string>& words) {
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        add_option(std::string{list.substr(begin, end - begin)}, words);
        begin = end + 1;
    }
}

} // namespace

bool is_mount_helper(std::string_view program) {
    const std::string_view name = program.substr(program.rfind('/') + 1);
    return name == "mount.fuse.viaduct" || name == "mount.viaduct";
}

Outcome<std::optional<std::vector<std::string>>> mount_helper_words(int argc, const char* const* argv) {
    std::vector<std::string> words{"--daemon"};
    bool only_looking = false;
    for (int index = 1; index < argc; ++index) {
        const std::string word = argv[index];
        if (!word.starts_with('-') || word.size() < 2) {
            words.push_back(word);
            continue;
        }
        if (word == "-o" || word == "-t" || word == "-N") {
            if (++index == argc) return usage_failure(word + " is the last word; it takes a value");
            if (word == "-o") add_options(argv[index], words);
            if (word == "-N")
                return usage_failure("-N is given; mount in that namespace with nsenter(1) instead");
            continue;
        }
        if (word.find_first_not_of("sfnv", 1) != std::string::npos)
            return usage_failure("there is no option \"" + word + "\" here; mount(8) gives -sfnv, -o and -t");
        only_looking = only_looking || word.find('f') != std::string::npos;
    }
    if (only_looking) return std::nullopt;
    return words;
}

} // namespace viaduct::config
