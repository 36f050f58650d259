// SPDX-License-Identifier: Apache-2.0
//
// Which plots a report has, and the table beside each.
#pragma once

#include "bench/report.h"
#include "bench/table.h"

#include <span>
#include <string>
#include <vector>

namespace viaduct::bench {

struct ReportPlot {
    std::string svg;
    Table table; // the same figures
};

// Styles of servers, by their order: the style is the place in the list.
std::vector<std::string> servers_of(std::span<const ReportPoint> points);

// The ratios to the bare call of all loads; nothing when none was measured.
std::vector<ReportPlot> ratio_plots(std::span<const ReportPoint> points);

// Of one load (all points have the same): rates and CPU over what was varied most of queues, threads and
// depth, a panel for each value of the others; and latencies.  `id` begins the plots' ids.
std::vector<ReportPlot> load_plots(const std::string& id, std::span<const ReportPoint> points,
                                   std::span<const std::string> servers);

} // namespace viaduct::bench
