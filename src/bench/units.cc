// SPDX-License-Identifier: Apache-2.0
#include "bench/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <iterator>

namespace viaduct::bench {
namespace {

constexpr const char* kDash = "–";

// For more than that, no plot has room; it also ends the loops for any input.
constexpr int kDecadesMax = 30;

// Beyond it the sums of ticks would overflow.
constexpr double kMost = 1e300;

// What would be rounded to 1000 has the next prefix.
constexpr double kRoundUp = 1000 / 999.5;

bool usable(double value) {
    return std::isfinite(value) && value > 0;
}

// Digits after the point that leave three digits that matter.
int decimals_for(double value) {
    const double size = std::abs(value);
    if (size >= 99.95 || size == 0) return 0;
    if (size >= 9.995) return 1;
    return size >= 0.1 ? 2 : 3;
}

double power_of_ten(int exponent) {
    return std::pow(10.0, exponent);
}

} // namespace

Scale count_scale(double value) {
    const double size = std::abs(value) * kRoundUp;
    if (size >= 1e9) return {1e9, "G"};
    if (size >= 1e6) return {1e6, "M"};
    if (size >= 1e3) return {1e3, "k"};
    return {1, ""};
}

Scale time_scale(double value_ns) {
    const double size = std::abs(value_ns) * kRoundUp;
    if (size >= 1e9) return {1e9, "s"};
    if (size >= 1e6) return {1e6, "ms"};
    if (size >= 1e3) return {1e3, "µs"};
    return {1, "ns"};
}

std::string fixed(double value, int decimals) {
    if (!std::isfinite(value)) return kDash;
    char text[340]; // the largest double has 309 digits
    const auto [end, error] =
        std::to_chars(std::begin(text), std::end(text), value, std::chars_format::fixed, decimals);
    if (error != std::errc{}) return kDash;
    std::string result{text, end};
    // "-0.00" is not a figure.
    if (result.starts_with('-') && result.find_first_not_of("-0.") == std::string::npos) result.erase(0, 1);
    return result;
}

std::string three_digits(double value) {
    return fixed(value, decimals_for(value));
}

std::string count_text(double value) {
    if (!std::isfinite(value)) return kDash;
    const Scale scale = count_scale(value);
    std::string text = three_digits(value / scale.factor);
    return scale.unit.empty() ? text : text + " " + scale.unit;
}

std::string time_text(double value_ns) {
    if (!std::isfinite(value_ns)) return kDash;
    const Scale scale = time_scale(value_ns);
    return three_digits(value_ns / scale.factor) + " " + scale.unit;
}

std::string bytes_text(std::uint64_t bytes) {
    constexpr const char* kUnits[] = {" B", " KiB", " MiB", " GiB"};
    std::size_t unit = 0;
    while (unit + 1 < std::size(kUnits) && bytes >= 1024 && bytes % 1024 == 0) {
        bytes /= 1024;
        ++unit;
    }
    return std::to_string(bytes) + kUnits[unit];
}

std::vector<double> linear_ticks(double most, int wanted) {
    const double span = usable(most) && most < kMost ? most : 1;
    const double rough = span / std::max(wanted, 1);
    const double decade = std::pow(10.0, std::floor(std::log10(rough)));
    if (!usable(decade)) return {0, span}; // denormal or close to overflow
    double step = 10 * decade;
    for (const double factor : {1.0, 2.0, 5.0}) {
        // 1e-9: that a step which fits but for its rounding is taken.
        if (factor * decade >= rough * (1 - 1e-9)) {
            step = factor * decade;
            break;
        }
    }
    std::vector<double> ticks{0};
    while (ticks.back() < span * (1 - 1e-9)) ticks.push_back(step * static_cast<double>(ticks.size()));
    return ticks;
}

std::vector<double> log_ticks(double least, double most) {
    least = usable(least) ? least : 1;
    most = usable(most) ? std::max(least, most) : least;
    // 1e-9: a bound that is a power of ten but for its rounding is one.
    const int first = static_cast<int>(std::floor(std::log10(least) + 1e-9));
    int last = static_cast<int>(std::ceil(std::log10(most) - 1e-9));
    last = std::clamp(last, first + 1, first + kDecadesMax);
    std::vector<double> ticks;
    for (int exponent = first; exponent < last; ++exponent) {
        ticks.push_back(power_of_ten(exponent));
        if (last - first > 2) continue;
        ticks.push_back(2 * power_of_ten(exponent));
        ticks.push_back(5 * power_of_ten(exponent));
    }
    ticks.push_back(power_of_ten(last));
    return ticks;
}

} // namespace viaduct::bench
