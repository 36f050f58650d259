// SPDX-License-Identifier: Apache-2.0
#include "rt/ring.h"

#include "rt/poll_ring.h"
#include "rt/uring_ring.h"

namespace viaduct::rt {

Result<std::unique_ptr<Ring>> Ring::make(std::optional<Kind> required,
                                         std::optional<Errno>* fallback_reason) {
    if (required == Kind::poll) return PollRing::make();
    auto ring = UringRing::make();
    if (ring || required == Kind::uring) return ring;
    if (fallback_reason != nullptr) *fallback_reason = ring.error();
    return PollRing::make();
}

} // namespace viaduct::rt
