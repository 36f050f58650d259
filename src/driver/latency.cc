// SPDX-License-Identifier: Apache-2.0
#include "driver/latency.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace viaduct::driver {
namespace {

// Values below 2 * kParts have a bucket each; above, every power of two is cut into kParts buckets.
constexpr unsigned kPartBits = 6;
constexpr std::uint64_t kParts = 1U << kPartBits;
constexpr std::size_t kBuckets =
    (static_cast<std::size_t>(std::bit_width(Latency::kMaxNs)) - kPartBits + 1) * kParts;

constexpr std::size_t bucket_of(std::uint64_t ns) {
    if (ns < 2 * kParts) return ns;
    const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - kPartBits - 1;
    return shift * kParts + (ns >> shift);
}

constexpr std::uint64_t first_of(std::size_t bucket) {
    if (bucket < 2 * kParts) return bucket;
    const std::uint64_t shift = bucket / kParts - 1;
    return (bucket % kParts + kParts) << shift;
}

static_assert(bucket_of(Latency::kMaxNs) == kBuckets - 1);
static_assert(first_of(bucket_of(1ULL << 20)) == 1ULL << 20);

} // namespace

void Latency::record(std::uint64_t ns) {
    ns = std::min(ns, kMaxNs);
    if (counts_.empty()) counts_.resize(kBuckets);
    ++counts_[bucket_of(ns)];
    ++count_;
    max_ns_ = std::max(max_ns_, ns);
    sum_ns_ += static_cast<double>(ns);
}

void Latency::merge(const Latency& other) {
    if (other.counts_.empty()) return;
    if (counts_.empty()) counts_.resize(kBuckets);
    for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) counts_[bucket] += other.counts_[bucket];
    count_ += other.count_;
    max_ns_ = std::max(max_ns_, other.max_ns_);
    sum_ns_ += other.sum_ns_;
}

double Latency::mean() const noexcept {
    return count_ == 0 ? 0 : sum_ns_ / static_cast<double>(count_);
}

std::uint64_t Latency::percentile(double percent) const {
    const double wanted = std::ceil(std::clamp(percent, 0.0, 100.0) / 100 * static_cast<double>(count_));
    std::uint64_t left =
        std::clamp<std::uint64_t>(static_cast<std::uint64_t>(wanted), 1, std::max<std::uint64_t>(count_, 1));
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
        if (counts_[bucket] >= left) return std::min(first_of(bucket + 1) - 1, max_ns_);
        left -= counts_[bucket];
    }
    return 0;
}

std::vector<Latency::Bucket> Latency::buckets() const {
    std::vector<Bucket> filled;
    for (std::size_t bucket = 0; bucket < counts_.size(); ++bucket) {
        if (counts_[bucket] == 0) continue;
        filled.push_back(
            {.first_ns = first_of(bucket), .last_ns = first_of(bucket + 1) - 1, .count = counts_[bucket]});
    }
    return filled;
}

} // namespace viaduct::driver
