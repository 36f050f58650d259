// SPDX-License-Identifier: Apache-2.0
#include "config/serve_options.h"

#include <algorithm>
#include <initializer_list>

namespace viaduct::config {
namespace {

constexpr std::uint64_t kQueuesMax = 64;
constexpr std::size_t kTagBytesMax = 36;

void add_common(CommandLine& line, ServeOptions& options) {
    line.text("--tag", options.tag, "TAG", "Offer the configuration space, with this tag (at most 36 bytes)");
    line.number("--queues", options.queues, 1, kQueuesMax, "N", "Request queues offered at most");
    line.flag("--xattr", options.xattr, "Serve extended attributes");
    line.negative_flag("--no-packed", options.packed, "Do not offer packed virtqueues");
    line.number("--drain-timeout", options.drain_timeout_ms, 1, 600'000, "MS",
                "How long a stopping queue waits for its requests; milliseconds");
    line.text("--stats-file", options.stats_file, "PATH",
              "Write the count of requests of each queue there when a connection ends (JSON)");
    add_share_options(line, options);
}

Outcome<void> check_common(const ServeOptions& options, const char* share_option, const char* socket_option) {
    if (options.share.empty())
        return usage_failure(std::string{share_option} + " is missing; give the directory to share");
    if (options.socket_path.empty() && options.socket_fd < 0)
        return usage_failure(std::string{socket_option} +
                             " is missing; give the path of the socket to listen on");
    if (options.tag.size() > kTagBytesMax)
        return usage_failure("--tag is \"" + options.tag + "\"; it takes 1 to 36 bytes");
    if (options.tag.find('\n') != std::string::npos)
        return usage_failure("--tag holds a newline; guests refuse such a tag");
    return check_share_options(options);
}

// One of `-o NAME[=VALUE]`, the form that older libvirt uses.
Outcome<void> apply_old_option(const std::string& option, ServeOptions& options) {
    const std::string name = option.substr(0, option.find('='));
    const std::string value = option.size() > name.size() ? option.substr(name.size() + 1) : "";
    const auto one_of = [&](std::initializer_list<const char*> choices) {
        return std::ranges::any_of(choices, [&](const char* choice) { return value == choice; });
    };
    const auto wrong = [&](const char* right) {
        return usage_failure("-o " + name + " is \"" + value + "\"; it takes " + right);
    };
    if (name == "source") {
        if (value.empty()) return wrong("the directory to share");
        options.share = value;
    } else if (name == "cache") {
        if (!one_of({"none", "never", "metadata", "auto", "always"}))
            return wrong("none, metadata, auto or always");
        options.cache = value == "none" ? "never" : value;
    } else if (name == "loglevel" || name == "log_level") {
        if (!one_of({"debug", "info", "warn", "err"})) return wrong("debug, info, warn or err");
        options.log_level = value == "err" ? "error" : value;
    } else if (name == "sandbox" || name == "seccomp") {
        if (value != "none") return wrong("none; nothing else is built yet");
    } else if (name == "xattr" || name == "no_xattr") {
        options.xattr = name == "xattr";
    } else if (name == "posix_acl" || name == "no_posix_acl") {
        options.posix_acl = name == "posix_acl";
    } else if (name == "security_label" || name == "no_security_label") {
        options.security_label = name == "security_label";
    } else if (name == "xattrmap") {
        options.xattrmap = value;
    } else if (name == "writeback" || name == "no_writeback") {
        options.writeback = name == "writeback";
    } else if (name == "readdirplus" || name == "no_readdirplus") {
        options.readdirplus = name == "readdirplus" ? "auto" : "off";
    } else if (name == "allow_direct_io" || name == "no_allow_direct_io") {
        options.allow_direct_io = name == "allow_direct_io";
    } else if (name == "killpriv_v2" || name == "no_killpriv_v2") {
        options.killpriv_v2 = name == "killpriv_v2";
    } else if (name == "announce_submounts") {
        options.announce_submounts = true;
    } else if (name == "posix_lock" || name == "no_posix_lock") {
        options.posix_lock = name == "posix_lock";
    } else if (name == "flock" || name == "no_flock") {
        options.flock = name == "flock";
    } else {
        return usage_failure("-o " + name +
                             " is not supported: it is not built yet, or no option of this program");
    }
    return {};
}

Outcome<void> apply_old_style(const std::string& list, ServeOptions& options) {
    for (std::size_t begin = 0; begin <= list.size();) {
        const std::size_t end = std::min(list.find(',', begin), list.size());
        TRY_STATUS(apply_old_option(list.substr(begin, end - begin), options));
        begin = end + 1;
    }
    return {};
}

} // namespace

void add_share_options(CommandLine& line, ServeOptions& options) {
    constexpr std::uint64_t kWorkersMax = 256;
    line.number("--workers", options.workers, 0, kWorkersMax, "N",
                "Worker threads; 0: one per usable CPU, at most 4");
    line.choice("--cache", options.cache, {"never", "metadata", "auto", "always"},
                "How long the client may believe what it was told");
    line.duration("--entry-timeout", options.entry_timeout,
                  "How long it may believe a name, in place of what --cache says");
    line.duration("--attr-timeout", options.attr_timeout,
                  "How long it may believe attributes, in place of what --cache says");
    line.duration("--negative-timeout", options.negative_timeout,
                  "How long it may believe that a name does not exist [0s]");
    line.flag("--writeback", options.writeback,
              "Let the client keep what is written and write it later (--cache auto or always)");
    line.flag("--allow-mmap", options.allow_mmap,
              "Let programs map files shared that the client does not keep (--cache never or metadata)");
    line.flag("--readonly", options.readonly, "Refuse every change with EROFS");
    line.flag("--posix-lock", options.posix_lock,
              "Locks of fcntl(2) hold for other clients and the host too");
    line.negative_flag("--no-posix-lock", options.posix_lock, "They hold within the client only");
    line.flag("--flock", options.flock, "Locks of flock(2) hold for other clients and the host too");
    line.negative_flag("--no-flock", options.flock, "They hold within the client only");
    line.flag("--allow-direct-io", options.allow_direct_io,
              "Keep O_DIRECT when a client opens a file; otherwise it is stripped");
    line.flag("--posix-acl", options.posix_acl,
              "Serve POSIX ACLs, which the client enforces; implies --xattr");
    line.flag("--security-label", options.security_label,
              "Label what is made as the client's SELinux says; implies --xattr");
    line.text("--xattrmap", options.xattrmap, "RULES",
              "Keep the client's extended attributes under other names, such as :map::user.virtiofs.:");
    line.texts("--translate-uid", options.translate_uid, "RULE",
               "Users of the client that stand for others here, such as map:0:1000:1; may be repeated");
    line.texts("--translate-gid", options.translate_gid, "RULE", "The same for groups");
    line.choice("--readdirplus", options.readdirplus, {"auto", "on", "off"},
                "Look entries up while listing; auto: as far as the client uses them");
    line.alias("--no-readdirplus", options.readdirplus, "off", "The same as --readdirplus off");
    line.choice("--inline", options.inline_calls, {"auto", "always", "never"},
                "Which calls a worker makes itself rather than on a ring or a helper");
    line.choice("--ring", options.ring, {"auto", "io_uring", "poll"}, "What workers wait in");
    line.number("--poll-us", options.poll_us, 0, 1'000'000, "US",
                "Look for requests this long before waiting for a kick; 0: never; microseconds");
    line.text("--faults", options.faults, "RULES",
              "Delays and errors put in on purpose, for tests: "
              "CALL:delay=MS|blocking|deaf|errno=NAME|short=BYTES|calls=N");
    line.choice("--log-level", options.log_level, {"error", "warn", "info", "debug", "trace", "off"},
                "What is logged");
    line.flag("--syslog", options.syslog, "Log to syslog instead of stderr");
    line.number("--rlimit-nofile", options.rlimit_nofile, 0, 1ULL << 30, "N",
                "Open files at most; 0: the hard limit");
}

Outcome<void> check_share_options(const ServeOptions& options) {
    if (options.posix_acl && (!options.translate_uid.empty() || !options.translate_gid.empty()))
        return usage_failure(
            "--posix-acl does not go with --translate-uid and --translate-gid, which do not reach "
            "the ids in ACLs; leave one of them out");
    return {};
}

Outcome<ServeCommand> parse_serve(int argc, const char* const* argv) {
    ServeCommand command;
    ServeOptions& options = command.options;
    CommandLine line{"viaduct serve", "--share DIR --socket PATH [OPTION...]",
                     "Serves a directory to guests as a vhost-user virtio-fs device with many queues."};
    line.text("--share", options.share, "DIR", "The directory to share");
    line.text("--socket", options.socket_path, "PATH", "The vhost-user socket to listen on");
    bool once = false;
    line.flag("--once", once, "End when the first connection ends, instead of listening again");
    add_common(line, options);
    TRY(command.request, line.parse(argc, argv));
    options.keep_listening = !once;
    command.help = line.help();
    if (command.request == Request::run) TRY_STATUS(check_common(options, "--share", "--socket"));
    return command;
}

Outcome<ServeCommand> parse_viaductd(int argc, const char* const* argv) {
    ServeCommand command;
    ServeOptions& options = command.options;
    options.keep_listening = false;
    options.killpriv_v2 = false;
    CommandLine line{
        "viaductd", "--shared-dir DIR {--socket-path PATH | --fd N} [OPTION...]",
        "Serves a directory to a guest as a vhost-user virtio-fs device; takes virtiofsd's place."};
    line.text("--shared-dir", options.share, "DIR", "The directory to share");
    line.text("--socket-path", options.socket_path, "PATH", "The vhost-user socket to listen on");
    std::string old_socket;
    line.text("--socket", old_socket, "PATH", "The same as --socket-path");
    std::uint64_t fd = 0;
    line.number("--fd", fd, 0, 1'048'576, "N", "An inherited socket that is listening already");
    line.text("--socket-group", options.socket_group, "GROUP", "Let this group connect (mode 0770)");
    line.flag("--keep-listening", options.keep_listening, "Listen again when a front end leaves");
    std::string sandbox = "none";
    line.choice("--sandbox", sandbox, {"none"}, "Sandbox; only \"none\" is built so far");
    std::string seccomp = "none";
    line.choice("--seccomp", seccomp, {"none"}, "System call filter; only \"none\" is built so far");
    std::uint64_t pool_size = 0;
    line.number("--thread-pool-size", pool_size, 0, 1024, "N", "Accepted; workers are set by --workers");
    bool noatime = true;
    line.flag("--preserve-noatime", noatime, "Accepted; O_NOATIME is always kept");
    std::string handles = "never";
    line.choice("--inode-file-handles", handles, {"never"}, "Only \"never\" is built so far");
    line.flag("--killpriv-v2", options.killpriv_v2,
              "Drop set-id bits on the host as the guest's kernel asks");
    line.negative_flag("--no-killpriv-v2", options.killpriv_v2, "Do not (default)");
    line.flag("--announce-submounts", options.announce_submounts,
              "Tell the guest of other file systems (default)");
    line.negative_flag("--no-announce-submounts", options.announce_submounts, "Do not");
    line.flag("--print-capabilities", command.print_capabilities, "Print what libvirt asks for and end");
    add_common(line, options);
    for (const char* const name : {"--migration-verify-handles", "--migration-confirm-paths"})
        line.refused(name, false, "it is not built yet");
    for (const char* const name :
         {"--modcaps", "--uid-map", "--gid-map", "--migration-mode", "--migration-on-error"})
        line.refused(name, true, "it is not built yet");
    std::vector<std::string> old_style;
    line.texts("-o", old_style, "NAME=VALUE,...",
               "Options in the old style: source=DIR, cache=POLICY and others");
    TRY(command.request, line.parse(argc, argv));
    command.help = line.help();
    if (command.request != Request::run || command.print_capabilities) return command;
    for (const std::string& list : old_style) TRY_STATUS(apply_old_style(list, options));
    if (options.socket_path.empty()) options.socket_path = old_socket;
    if (line.given("--fd")) {
        if (!options.socket_path.empty())
            return usage_failure(
                "--fd and --socket-path are both given; the socket of --fd is listening already");
        if (!options.socket_group.empty())
            return usage_failure("--socket-group goes with --socket-path, not with --fd");
        options.socket_fd = static_cast<int>(fd);
    }
    TRY_STATUS(check_common(options, "--shared-dir", "--socket-path (or --fd)"));
    return command;
}

} // namespace viaduct::config
