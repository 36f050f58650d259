// SPDX-License-Identifier: Apache-2.0
//
// Packed queue, device side, over hostile guest memory.
#include "queue_fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    viaduct::virtio::fuzz_queue(true, {data, size});
    return 0;
}
