// SPDX-License-Identifier: Apache-2.0
//
// What viaduct-load tells: JSON lines, and a table for people.
#pragma once

#include "driver/device.h"
#include "driver/load.h"

#include <cstdio>
#include <string>
#include <vector>

namespace viaduct::bench {

// One run, and the bare call beside it.
struct Measurement {
    driver::LoadResult result;
    double server_ns = 0; // CPU of an operation; 0: not known
    double bare_ns = 0;   // 0: not measured
    double ratio() const { return bare_ns > 0 ? server_ns / bare_ns : 0; }
};

// Medians of some runs; of the ratio the median of the ratios, with the smallest and the largest.
struct Summary {
    driver::LoadOptions load;
    double operations_per_second = 0;
    double mib_per_second = 0;
    double server_ns = 0;
    double client_ns = 0;
    double bare_ns = 0;
    double ratio = 0;
    double ratio_min = 0;
    double ratio_max = 0;
    double kicks_per_request = 0;
    double interrupts_per_request = 0;
    std::uint64_t operations = 0; // of all runs
    std::uint64_t mismatches = 0;
    std::uint64_t errors = 0;
    std::string first_error;
};
Summary summarize(const driver::LoadOptions& load, const std::vector<Measurement>& runs);

void print_run(std::FILE* to, const std::string& name, const driver::Device& device,
               const driver::LoadOptions& load, int number, const Measurement& run);
void print_summary(std::FILE* to, const std::string& name, const driver::Device& device,
                   const Summary& summary);
void print_table_head(std::FILE* to);
void print_table_row(std::FILE* to, const Summary& summary);

} // namespace viaduct::bench
