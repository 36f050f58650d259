// SPDX-License-Identifier: Apache-2.0
//
// Kinds of load as they are written on the command line, with the names that users of fio know.
#pragma once

#include "base/result.h"
#include "driver/load.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::bench {

// One kind, or several that are mixed.  block_bytes 0: the common block size.
using Workload = std::vector<driver::LoadPart>;

// "getattr,randread:4K,rw": one workload each.  `option` is named in the sentence of a mistake; status 2.
Outcome<std::vector<Workload>> parse_workloads(const std::string& option, std::string_view list);
// "randread:4K=70,randwrite:4K=30": one workload; a kind without a share has 1.
Outcome<Workload> parse_mix(const std::string& option, std::string_view list);

// Puts the workload into a load, whose own block size is the common one.
void set_workload(const Workload& workload, driver::LoadOptions& load);
// Such that one of the above reads it again: "randread:4K", "getattr=1,randread:4K=3".
std::string workload_name(const driver::LoadOptions& load);

// The largest block that a load moves; 0: it moves none.
std::uint32_t block_of(const driver::LoadOptions& load);

// The parts of a list with commas.
std::vector<std::string_view> split_list(std::string_view list, char separator = ',');

} // namespace viaduct::bench
