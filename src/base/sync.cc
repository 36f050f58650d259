// SPDX-License-Identifier: Apache-2.0
#include "base/sync.h"

namespace viaduct::sync {

#ifdef VIADUCT_COUNT_SYNC
Counts& counts() noexcept {
    thread_local Counts per_thread;
    return per_thread;
}
#endif

} // namespace viaduct::sync
