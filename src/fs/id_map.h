// SPDX-License-Identifier: Apache-2.0
//
// IdMap: which user (or group) ids of the client stand for which of the host.
//
// The rules are virtiofsd's.  The two directions are independent of each other; what no rule covers stays as
// it is.
//   guest:CLIENT:HOST:COUNT         a range of the client's ids to a range of the host's
//   host:HOST:CLIENT:COUNT          the other way round
//   map:CLIENT:HOST:COUNT           both
//   squash-guest:CLIENT:HOST:COUNT  a range of the client's ids to one of the host's
//   squash-host:HOST:CLIENT:COUNT   the other way round
//   forbid-guest:CLIENT:COUNT       the client can give no file to these
// Ids are below 2^32 - 1, which is the id that stands for none.
#pragma once

#include "base/result.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::fs {

class IdMap {
public:
    // No rules: every id stays as it is.  The failure names the rule and what would be right.
    static Outcome<IdMap> parse(std::span<const std::string> rules);

    // EPERM: forbidden.
    Result<std::uint32_t> to_host(std::uint32_t id) const noexcept;
    std::uint32_t to_client(std::uint32_t id) const noexcept;
    bool empty() const noexcept { return to_host_.empty() && to_client_.empty(); }

private:
    enum class Kind {
        each, // the ids of a range to those of another
        one,  // all to one
        forbidden,
    };
    struct Range {
        std::uint32_t first;
        std::uint32_t count;
        std::uint32_t target;
        Kind kind;
        std::string rule; // as it was given
    };
    using Ranges = std::vector<Range>; // by their first, none overlapping another
    static Outcome<void> add(Ranges& ranges, Range range);
    Outcome<void> add_rule(const std::string& rule);
    static const Range* find(const Ranges& ranges, std::uint32_t id) noexcept;

    Ranges to_host_;
    Ranges to_client_;
};

} // namespace viaduct::fs
