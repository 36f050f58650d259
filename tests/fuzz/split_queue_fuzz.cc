// SPDX-License-Identifier: Apache-2.0
//
// Split queue, device side, over hostile guest memory.
#include "queue_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    viaduct::virtio::fuzz_queue(false, {data, size});
    return 0;
}
