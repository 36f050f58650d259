// SPDX-License-Identifier: Apache-2.0
#include "engine/share.h"

#include "backend/passthrough/passthrough.h"
#include "base/log.h"
#include "engine/fault_rules.h"
#include "fs/layers/faults.h"
#include "fs/layers/locks.h"
#include "fs/layers/mapped_ids.h"
#include "fs/layers/mapped_xattrs.h"
#include "rt/thread.h"

namespace viaduct::engine {
namespace {

using namespace std::chrono_literals;

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

// Nothing is kept that could be written later where files are read and written directly; a client that caches
// writes would go by its own idea of their size and times all the same.
bool writes_back(const config::ServeOptions& options) {
    return options.writeback && (options.cache == "auto" || options.cache == "always");
}

using Layer = std::unique_ptr<fs::FileSystem>;

Layer with_locks(const config::ServeOptions& options, Layer inner, const Locking& locking) {
    if (!options.posix_lock && !options.flock) return inner;
    return std::make_unique<fs::Locks>(std::move(inner), locking.table, locking.limits);
}

Outcome<Layer> with_mapped_xattrs(const config::ServeOptions& options, Layer inner) {
    if (options.xattrmap.empty()) return inner;
    auto map = fs::XattrMap::parse(options.xattrmap);
    if (!map) return usage_failure("--xattrmap: " + map.error().message);
    return std::make_unique<fs::MappedXattrs>(std::move(inner), std::move(*map), options.posix_acl);
}

Outcome<Layer> with_mapped_ids(const config::ServeOptions& options, Layer inner) {
    auto users = fs::IdMap::parse(options.translate_uid);
    if (!users) return usage_failure("--translate-uid: " + users.error().message);
    auto groups = fs::IdMap::parse(options.translate_gid);
    if (!groups) return usage_failure("--translate-gid: " + groups.error().message);
    if (users->empty() && groups->empty()) return inner;
    return std::make_unique<fs::MappedIds>(std::move(inner), std::move(*users), std::move(*groups));
}

Outcome<Layer> with_faults(const config::ServeOptions& options, Layer inner) {
    if (options.faults.empty()) return inner;
    TRY(const auto rules, parse_fault_rules(options.faults));
    auto faults = std::make_unique<fs::Faults>(std::move(inner));
    for (const auto& [operation, rule] : rules) faults->set(operation, rule);
    return faults;
}

} // namespace

bool serves_xattrs(const config::ServeOptions& options) noexcept {
    return options.xattr || options.posix_acl || options.security_label || !options.xattrmap.empty();
}

bool drops_privileges(const config::ServeOptions& options) {
    constexpr std::string_view kCapabilities = "security.capability";
    if (!options.killpriv_v2 || options.xattrmap.empty()) return options.killpriv_v2;
    const auto map = fs::XattrMap::parse(options.xattrmap);
    return map && map->to_host(kCapabilities) == std::string{kCapabilities};
}

session::SessionOptions session_options(const config::ServeOptions& options) {
    const bool keeps_names = options.cache != "never" || options.entry_timeout.value_or(0ms) > 0ms;
    session::SessionOptions made;
    made.xattr = serves_xattrs(options);
    made.negative_valid = options.negative_timeout.value_or(0ms);
    made.wishes.readdirplus = options.readdirplus == "on" || (options.readdirplus == "auto" && keeps_names);
    made.wishes.readdirplus_auto = options.readdirplus == "auto";
    made.wishes.killpriv_v2 = drops_privileges(options);
    made.wishes.dont_mask = rt::threads_have_own_umask(); // else the client's kernel applies the umask
    made.wishes.posix_acl = options.posix_acl;
    made.wishes.security_context = options.security_label;
    made.wishes.writeback = writes_back(options);
    made.wishes.direct_io_mmap = options.allow_mmap;
    made.wishes.posix_locks = options.posix_lock;
    made.wishes.flock_locks = options.flock;
    return made;
}

Outcome<std::unique_ptr<fs::FileSystem>> open_share(const config::ServeOptions& options,
                                                    const Locking& locking) {
    if (options.writeback && !writes_back(options))
        log::warn("--writeback is left out: with --cache {} the client keeps no data", options.cache);
    TRY(Layer file_system, passthrough::Passthrough::make({.share = options.share,
                                                           .cache = cache_policy(options.cache),
                                                           .entry_valid = options.entry_timeout,
                                                           .attr_valid = options.attr_timeout,
                                                           .writeback = writes_back(options),
                                                           .inline_mode = inline_mode(options.inline_calls),
                                                           .xattr = serves_xattrs(options),
                                                           .posix_acl = options.posix_acl,
                                                           .read_only = options.readonly,
                                                           .allow_direct_io = options.allow_direct_io,
                                                           .fold_inodes = !options.announce_submounts}));
    file_system = with_locks(options, std::move(file_system), locking);
    TRY(file_system, with_mapped_xattrs(options, std::move(file_system)));
    TRY(file_system, with_mapped_ids(options, std::move(file_system)));
    return with_faults(options, std::move(file_system));
}

} // namespace viaduct::engine
