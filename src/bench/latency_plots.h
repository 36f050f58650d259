// SPDX-License-Identifier: Apache-2.0
//
// Latencies as percentile curves.
#pragma once

#include "bench/report_plots.h"

#include <span>
#include <string>
#include <vector>

namespace viaduct::bench {

// At most so many settings of a load are drawn, evenly spread over those there are; the tables have all.
inline constexpr std::size_t kLatencyPanelsMax = 6;

// A plot for each setting in which a latency is known.
void add_latency_plots(std::vector<ReportPlot>& plots, const std::string& id,
                       std::span<const ReportPoint> points, std::span<const std::string> servers);

} // namespace viaduct::bench
