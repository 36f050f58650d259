// SPDX-License-Identifier: Apache-2.0
//
// One self-contained HTML page from measurements: plots (SVG) with a table beside each.
//
// Points with the same `load` make a section.  Servers keep one colour and one mark through the page, in the
// order in which they first appear.  In all figures NaN is "not measured"; such are left out of plots and are
// a dash in tables.
#pragma once

#include "base/result.h"
#include "bench/units.h"

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace viaduct::bench {

inline constexpr double kNotMeasured = kNoFigure;

// Operations that took at most `upper_ns`, and longer than the bucket before says.
struct LatencyBucket {
    double upper_ns = 0;
    std::uint64_t count = 0;
};

// One load on one server: medians of its runs.  Where a unit is "of an operation", the two or three requests
// of open-release and create-unlink are one operation.
struct ReportPoint {
    std::string server; // "viaductd", "viaductd, packed"
    std::string load;   // "read 4 KiB, random"
    std::uint32_t queues = 1;
    std::uint32_t threads = 1;
    std::uint32_t depth = 1;       // outstanding, of each thread on each of its queues
    std::uint64_t block_bytes = 0; // 0: the load has no blocks
    std::uint32_t runs = 1;        // that the medians are of
    double operations_per_second = kNotMeasured;
    double operations_per_second_min = kNotMeasured;
    double operations_per_second_max = kNotMeasured;
    double mib_per_second = kNotMeasured;
    double server_ns = kNotMeasured; // CPU of an operation
    double client_ns = kNotMeasured; // the same of the load's threads
    double bare_ns = kNotMeasured;   // CPU of the same call made locally
    double ratio = kNotMeasured;     // server_ns / bare_ns, the median of the runs' ratios
    double ratio_min = kNotMeasured;
    double ratio_max = kNotMeasured;
    double p50_ns = kNotMeasured; // latency of an operation
    double p99_ns = kNotMeasured;
    double p999_ns = kNotMeasured;
    double max_ns = kNotMeasured;
    std::vector<LatencyBucket> latencies; // ascending; empty: only the percentiles above are known
    double kicks_per_request = kNotMeasured;
    double interrupts_per_request = kNotMeasured;
    double same_cpu_share = kNotMeasured; // of completions, on the CPU that submitted; 0 to 1
    double cpu_migrations = kNotMeasured; // of the load's threads, each second
    std::uint64_t errors = 0;
    std::uint64_t mismatches = 0; // blocks that were not what they should be
};

struct ReportHeader {
    std::string title;
    std::string command; // that made the measurements
    std::string machine; // "2 CPUs, AMD EPYC 7B13"
    std::string kernel;
    std::string date;
    std::string cpus;                                        // "server on 1, load on 0"
    std::vector<std::pair<std::string, std::string>> others; // further rows of the same table: name, value
    std::vector<std::string> notes;                          // what the reader should know
};

std::string report_page(const ReportHeader& header, std::span<const ReportPoint> points);

// The page as a file; one that is there is replaced.
Outcome<void> write_report(const std::string& path, const ReportHeader& header,
                           std::span<const ReportPoint> points);

} // namespace viaduct::bench
