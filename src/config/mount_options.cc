// SPDX-License-Identifier: Apache-2.0
#include "config/mount_options.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

namespace viaduct::config {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t kPageBytes = 4096;
constexpr std::uint32_t kMaxReadMax = 1U << 20;

Outcome<void> set_max_read(const std::string& value, MountCommand& command) {
    std::uint32_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc{} || end != value.data() + value.size() || number < kPageBytes ||
        number > kMaxReadMax)
        return usage_failure("-o max_read is \"" + value + "\"; it takes bytes, from 4096 to 1048576");
    command.max_read_bytes = number;
    return {};
}

// One of `-o NAME[=VALUE]`.
Outcome<void> apply_option(const std::string& option, MountCommand& command) {
    struct Flag {
        const char* name;
        bool* target;
        bool value;
    };
    const Flag flags[] = {
        {"ro", &command.share.readonly, true},
        {"rw", &command.share.readonly, false},
        {"allow_other", &command.allow_other, true},
        {"suid", &command.suid, true},
        {"nosuid", &command.suid, false},
        {"dev", &command.dev, true},
        {"nodev", &command.dev, false},
        {"exec", &command.exec, true},
        {"noexec", &command.exec, false},
        {"noatime", &command.noatime, true},
        {"atime", &command.noatime, false},
    };
    for (const Flag& flag : flags) {
        if (option != flag.name) continue;
        *flag.target = flag.value;
        return {};
    }
    const std::size_t equals = std::min(option.find('='), option.size());
    for (const auto& [name, target] : {std::pair{"entry_timeout", &command.share.entry_timeout},
                                       {"attr_timeout", &command.share.attr_timeout},
                                       {"negative_timeout", &command.share.negative_timeout}}) {
        if (option.substr(0, equals) != name || equals == option.size()) continue;
        TRY(*target, checked_duration("-o " + option.substr(0, equals), option.substr(equals + 1), 0ms));
        return {};
    }
    if (option.starts_with("max_read=")) return set_max_read(option.substr(option.find('=') + 1), command);
    if (option == "default_permissions" || option == "defaults") return {}; // always so
    return usage_failure("there is no -o " + option +
                         "; there are ro, allow_other, suid, nosuid, dev, nodev, exec, noexec, noatime, "
                         "max_read=BYTES and entry_timeout, attr_timeout, negative_timeout=TIME");
}

Outcome<void> apply_list(const std::string& list, MountCommand& command) {
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        TRY_STATUS(apply_option(list.substr(begin, end - begin), command));
        begin = end + 1;
    }
    return {};
}

} // namespace

Outcome<MountCommand> parse_mount(int argc, const char* const* argv) {
    MountCommand command;
    command.share.xattr = true;
    command.share.posix_lock = true; // a mount is as good as the directory
    command.share.flock = true;
    command.share.announce_submounts = false; // the kernel takes none on /dev/fuse
    CommandLine line{"viaduct mount", "DIR MOUNTPOINT [-o NAME,...] [OPTION...]",
                     "Mounts a directory at another place of this host, through /dev/fuse."};
    std::vector<std::string> words;
    line.words(words, "PATH", "DIR, the directory, and MOUNTPOINT, an empty one where it appears");
    std::vector<std::string> lists;
    line.texts(
        "-o", lists, "NAME,...",
        "Mount options: ro, allow_other, suid, dev, noexec, noatime, max_read=BYTES, entry_timeout=TIME");
    line.flag("--daemon", command.background, "Go to the background as soon as it is mounted");
    line.number("--stop-timeout", command.stop_timeout_ms, 0, 3'600'000, "MS",
                "How long SIGTERM and SIGINT wait until written data has reached the share; milliseconds");
    line.negative_flag("--no-xattr", command.share.xattr, "Do not serve extended attributes");
    add_share_options(line, command.share);
    TRY(command.request, line.parse(argc, argv));
    command.help = line.help();
    if (command.request != Request::run) return command;
    if (words.size() != 2)
        return usage_failure(std::to_string(words.size()) +
                             (words.size() == 1 ? " path is given" : " paths are given") +
                             "; give the directory and the mount point: viaduct mount DIR MOUNTPOINT");
    command.share.share = words[0];
    command.mountpoint = words[1];
    for (const std::string& list : lists) TRY_STATUS(apply_list(list, command));
    TRY_STATUS(check_share_options(command.share));
    return command;
}

} // namespace viaduct::config
