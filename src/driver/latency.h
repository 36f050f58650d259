// SPDX-License-Identifier: Apache-2.0
//
// How long things took: a histogram whose buckets grow with the value, so that what is told is right within
// 1/64 from a nanosecond to 18 minutes.
//
// Recording is a few instructions and allocates nothing after the first value.  One thread's; results of
// several are merged.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace viaduct::driver {

class Latency {
public:
    // Longer ones count as this one.
    static constexpr std::uint64_t kMaxNs = (1ULL << 40) - 1;

    void record(std::uint64_t ns);
    void merge(const Latency& other);

    std::uint64_t count() const noexcept { return count_; }
    // In nanoseconds, exact; 0 without values.
    std::uint64_t max() const noexcept { return max_ns_; }
    double mean() const noexcept;
    // The largest value of the bucket below whose end lie `percent` (0 to 100) of all values, but no more
    // than max(); 0 without values.
    std::uint64_t percentile(double percent) const;

    struct Bucket {
        std::uint64_t first_ns = 0; // the least value that falls in here
        std::uint64_t last_ns = 0;  // the greatest
        std::uint64_t count = 0;
    };
    // Those with values, in ascending order.
    std::vector<Bucket> buckets() const;

private:
    std::vector<std::uint64_t> counts_; // empty until there is a value
    std::uint64_t count_ = 0;
    std::uint64_t max_ns_ = 0;
    double sum_ns_ = 0;
};

} // namespace viaduct::driver
