// SPDX-License-Identifier: Apache-2.0
//
// XattrMap: under which names the client's extended attributes are kept on the host.
//
// The rule language is virtiofsd's: `:type:scope:key:prepend:`, where the first character is the separator.
// The first rule that matches decides.  A name from the client matches a rule of scope client or all when it
// begins with the key; a name from the host matches one of scope server or all when it begins with `prepend`.
//   prefix       the client's name gets `prepend` in front; the host's loses it
//   ok           the name stays as it is
//   bad          the client is refused with EPERM; the host's name is hidden
//   unsupported  the same with EOPNOTSUPP
//   `:map:key:prepend:`, once and last, stands for the rules that keep what begins with the key under
//   `prepend`, and let the client reach nothing there by another name.
// Names that no rule matches are refused with EPERM and hidden.
#pragma once

#include "base/result.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::fs {

class XattrMap {
public:
    // The failure names the rule, by its number from 1, and what would be right.
    static Outcome<XattrMap> parse(std::string_view rules);

    // EPERM, EOPNOTSUPP: the client may not use that name.
    Result<std::string> to_host(std::string_view name) const;
    // A part of `name`.  nullopt: the client is not to see it.
    std::optional<std::string_view> to_client(std::string_view name) const noexcept;

private:
    enum class Type {
        prefix,
        ok,
        bad,
        unsupported,
    };
    struct Rule {
        Type type;
        bool client;
        bool server;
        std::string key;
        std::string prepend;
    };
    static std::optional<Type> type_of(std::string_view word) noexcept;
    void add_map(std::string key, std::string prepend);

    std::vector<Rule> rules_;
};

} // namespace viaduct::fs
