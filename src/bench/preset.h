// SPDX-License-Identifier: Apache-2.0
//
// Loads whose results others have published, to be made again on a device at hand.
//
//   s0  random-write        4 KiB, depth 128, 8 jobs
//   s2  threads-by-queues   256 KiB sequential read, depth 128, from 1 thread on 1 queue to 24 on 24
//   s3  sequential          256 KiB sequential read and write, depth 8, 32 jobs, 1, 8, 16 and 32 queues
//   s4  random-read-write   4 KiB, depth 128, 8 jobs
//
// A job is a thread; it sleeps until it is interrupted, as fio's do.
#pragma once

#include "base/result.h"
#include "driver/load.h"

#include <string>
#include <vector>

namespace viaduct::bench {

// By either name.  What the preset does not choose is as in `common`.  A mistake names --preset; status 2.
Outcome<std::vector<driver::LoadOptions>> preset_points(const std::string& name,
                                                        const driver::LoadOptions& common);

} // namespace viaduct::bench
