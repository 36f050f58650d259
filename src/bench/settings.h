// SPDX-License-Identifier: Apache-2.0
//
// The settings of points: which one was varied most, and panels for the others.
#pragma once

#include "bench/report.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace viaduct::bench {

enum class Setting : std::uint8_t { queues, threads, depth };

std::string name_of(Setting setting);    // "queues"
std::string heading_of(Setting setting); // "Queues"
std::uint32_t value_of(Setting setting, const ReportPoint& point);
// Each once, ascending.
std::vector<std::uint32_t> values_of(Setting setting, std::span<const ReportPoint> points);
// The one with the most values; the first of them.
Setting most_varied(std::span<const ReportPoint> points);
// "4 queues, 2 threads, depth 32".
std::string setting_text(const ReportPoint& point);
// The same without the settings that all points share; may be empty.
std::string varying_text(const ReportPoint& point, std::span<const ReportPoint> all);

struct Panel {
    std::string name; // "2 threads, depth 32"; empty when it is the only one
    std::vector<ReportPoint> points;
};
// One for each combination of the settings that are not `varied`, in the order of their first points.  Where
// the others go with it (threads as many as queues), there is one panel alone.
std::vector<Panel> panels_of(Setting varied, std::span<const ReportPoint> points);

} // namespace viaduct::bench
