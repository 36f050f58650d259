// SPDX-License-Identifier: Apache-2.0
#include "rt/close_fds.h"

#include <algorithm>
#include <cstddef>
#include <unistd.h>

namespace viaduct::rt {

void close_fds(std::span<int> fds) noexcept {
    std::ranges::sort(fds);
    for (std::size_t begin = 0, end = 0; begin < fds.size(); begin = end) {
        end = begin + 1;
        while (end < fds.size() && fds[end] == fds[end - 1] + 1) ++end;
        // Every number of a run is one of ours, so nobody else's is closed.
        if (end - begin > 1 &&
            ::close_range(static_cast<unsigned>(fds[begin]), static_cast<unsigned>(fds[end - 1]), 0) == 0)
            continue;
        // One alone, or a seccomp profile without close_range(2), which then has closed none.
        for (std::size_t at = begin; at < end; ++at) ::close(fds[at]);
    }
}

} // namespace viaduct::rt
