// SPDX-License-Identifier: Apache-2.0
//
// Rows that differ in numbers: each point once for every combination of the values of some axes.
#pragma once

#include "base/result.h"
#include "driver/load.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace viaduct::bench {

enum class AxisName : std::uint8_t { threads, queues, depth, block, completion, dispatch, affinity };

struct Axis {
    AxisName name = AxisName::threads;
    // Of completion and dispatch: their enumerators; of affinity: whether it is on.
    std::vector<std::uint64_t> values;
};

// "threads=1,2,4,queues=1,2": an axis ends where the next one begins.  Mistakes name --sweep; status 2.
Outcome<std::vector<Axis>> parse_sweep(std::string_view text);

// The last axis changes fastest.  A point that moves no data has no block size to change: once is enough.
std::vector<driver::LoadOptions> expand(const std::vector<driver::LoadOptions>& points,
                                        const std::vector<Axis>& axes);

// Sets the block size of every part.
void set_block(driver::LoadOptions& load, std::uint32_t bytes);

// Whether both are the same measurement.
bool same_point(const driver::LoadOptions& a, const driver::LoadOptions& b);
// Leaves the first of those that are the same.
void remove_repeated(std::vector<driver::LoadOptions>& points);

} // namespace viaduct::bench
