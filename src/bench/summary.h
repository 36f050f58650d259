// SPDX-License-Identifier: Apache-2.0
//
// One run, and what several runs come to.
#pragma once

#include "driver/load.h"

#include <cstdint>
#include <string>
#include <vector>

namespace viaduct::bench {

// One run, and the bare call beside it.
struct Measurement {
    driver::LoadResult result;
    double server_ns = 0; // CPU of an operation; 0: it used none
    double bare_ns = 0;   // 0: not measured
    double ratio() const { return bare_ns > 0 ? server_ns / bare_ns : 0; }
    double operations_per_second() const {
        return result.seconds > 0 ? static_cast<double>(result.operations) / result.seconds : 0;
    }
};

// A median, with the least and the greatest.
struct Spread {
    double median = 0;
    double least = 0;
    double most = 0;
};
// All 0 without values.
Spread spread_of(std::vector<double> values);

// Medians of some runs; of the ratio the median of the ratios.
struct Summary {
    driver::LoadOptions load;
    Spread operations_per_second;
    double mib_per_second = 0;
    double server_ns = 0; // CPU of an operation
    double client_ns = 0;
    double bare_ns = 0; // 0: not measured
    Spread ratio;
    driver::Latency latency; // of the operations of all runs
    double kicks_per_request = 0;
    double interrupts_per_request = 0;
    double same_cpu_share = 0;               // of requests that ended on the CPU that submitted them; 0 to 1
    double migrations_per_second = 0;        // of the load's threads
    double context_switches_per_request = 0; // of the load's threads
    unsigned runs = 0;
    std::uint64_t operations = 0; // of all runs
    std::uint64_t mismatches = 0;
    std::uint64_t errors = 0;
    std::string first_error;

    bool good() const noexcept { return errors == 0 && mismatches == 0; }
};
Summary summarize(const driver::LoadOptions& load, const std::vector<Measurement>& runs);

// How one device did beside another, by the ratios of the rounds that both have.
struct Comparison {
    Spread rate;      // operations a second
    Spread server_ns; // 0 where the other used no CPU time
};
Comparison compare(const std::vector<Measurement>& runs, const std::vector<Measurement>& beside);

// What an operation or request has of something; 0 without any.
double share(std::uint64_t of, std::uint64_t each);

} // namespace viaduct::bench
