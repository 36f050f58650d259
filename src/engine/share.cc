// SPDX-License-Identifier: Apache-2.0
#include "engine/share.h"

#include "backend/passthrough/passthrough.h"
#include "engine/fault_rules.h"
#include "fs/layers/faults.h"

#include <sys/stat.h>
#include <unistd.h>

namespace viaduct::engine {
namespace {

passthrough::CachePolicy cache_policy(const std::string& option) {
    if (option == "never") return passthrough::CachePolicy::never;
    if (option == "metadata") return passthrough::CachePolicy::metadata;
    if (option == "always") return passthrough::CachePolicy::always;
    return passthrough::CachePolicy::automatic;
}

passthrough::InlineMode inline_mode(const std::string& option) {
    if (option == "always") return passthrough::InlineMode::always;
    if (option == "never") return passthrough::InlineMode::never;
    return passthrough::InlineMode::automatic;
}

} // namespace

Outcome<void> check_share(const std::string& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0)
        return failure("cannot share \"" + path + "\"", Errno{errno},
                       errno == ENOENT ? "create it, or name a directory that exists" : "");
    if (!S_ISDIR(status.st_mode)) return failure("cannot share \"" + path + "\": it is not a directory");
    if (::access(path.c_str(), R_OK | X_OK) != 0)
        return failure("cannot share \"" + path + "\"", Errno{errno}, "this user may not read it");
    return {};
}

Outcome<std::unique_ptr<fs::FileSystem>> open_share(const config::ServeOptions& options) {
    TRY(auto back_end, passthrough::Passthrough::make({.share = options.share,
                                                       .cache = cache_policy(options.cache),
                                                       .inline_mode = inline_mode(options.inline_calls),
                                                       .xattr = options.xattr,
                                                       .read_only = options.readonly,
                                                       .allow_direct_io = options.allow_direct_io,
                                                       .fold_inodes = !options.announce_submounts}));
    if (options.faults.empty()) return back_end;
    TRY(const auto rules, parse_fault_rules(options.faults));
    auto faults = std::make_unique<fs::Faults>(std::move(back_end));
    for (const auto& [operation, rule] : rules) faults->set(operation, rule);
    return faults;
}

} // namespace viaduct::engine
