// SPDX-License-Identifier: Apache-2.0
//
// PollSpell: how long a thread has looked for work and found none.
#pragma once

#include "base/clock.h"

#include <cstdint>

namespace viaduct::rt {

class PollSpell {
public:
    // Passes from one look at the clock to the next.  A look takes as long as the rest of a pass that finds
    // nothing, and what comes meanwhile waits for it.
    static constexpr std::uint32_t kPassesPerLook = 16;

    // Another pass has found nothing: has that gone on for `limit_ns`?
    bool over(std::uint64_t limit_ns) noexcept {
        if (passes_++ % kPassesPerLook != 0) return false;
        const std::uint64_t now_ns = monotonic_ns();
        if (passes_ == 1) since_ns_ = now_ns;
        return now_ns - since_ns_ >= limit_ns;
    }
    // Something was found.
    void end() noexcept { passes_ = 0; }

private:
    std::uint32_t passes_ = 0;
    std::uint64_t since_ns_ = 0;
};

} // namespace viaduct::rt
