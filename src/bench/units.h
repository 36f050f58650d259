// SPDX-License-Identifier: Apache-2.0
//
// Figures for people: SI prefixes, three digits that matter, and the ticks of an axis.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace viaduct::bench {

inline constexpr double kNoFigure = std::numeric_limits<double>::quiet_NaN();

// A factor and the prefix that stands for it.
struct Scale {
    double factor = 1;
    std::string unit; // "k", "M"; "ns", "µs", "ms", "s"
};
// The one in which `value` has one to three digits before the point.
Scale count_scale(double value);
Scale time_scale(double value_ns);

// `decimals` digits after the point.  A dash for NaN and infinity.
std::string fixed(double value, int decimals);
// At least three digits: "0.45", "12.3", "1234".
std::string three_digits(double value);
// "12.3 k"; a dash for NaN.
std::string count_text(double value);
// "0.45 µs", "294 µs"; a dash for NaN.
std::string time_text(double value_ns);
// "4 KiB".
std::string bytes_text(std::uint64_t bytes);

// From 0 to the first multiple of a round step (1, 2, 5, 10, …) that reaches `most`; about `wanted` steps.
// Two at least: what is not finite, not above 0 or beyond 1e300 counts as 1.
std::vector<double> linear_ticks(double most, int wanted);
// The decades around [least, most]; with 2 and 5 between where there are at most two decades.
// Both above 0 and finite; otherwise they count as 1.
std::vector<double> log_ticks(double least, double most);

} // namespace viaduct::bench
