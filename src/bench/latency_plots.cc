// SPDX-License-Identifier: Apache-2.0
#include "bench/latency_plots.h"

#include "bench/settings.h"
#include "bench/svg.h"

#include <algorithm>
#include <cmath>

namespace viaduct::bench {
namespace {

// The axis is by how many operations one is slower: 1 in 10 is 90 %.
struct Percentile {
    double one_in;
    const char* label;
};
constexpr Percentile kPercentiles[] = {
    {1, ""},           {2, "50 %"},         {10, "90 %"},          {100, "99 %"},
    {1'000, "99.9 %"}, {10'000, "99.99 %"}, {100'000, "99.999 %"}, {1'000'000, "99.9999 %"}};

struct Curve {
    std::vector<PlotPoint> points;
    double one_in_most = 0;
};

PlotPoint marked(const ReportPoint& point, const char* label, double one_in, double ns) {
    return {.x = one_in, .y = ns, .hover = point.server + ", " + label + ": " + time_text(ns), .mark = true};
}

Curve curve_from_percentiles(const ReportPoint& point) {
    Curve curve;
    const auto add = [&](double one_in, double ns, const char* label) {
        if (!std::isfinite(ns)) return;
        curve.points.push_back(marked(point, label, one_in, ns));
        curve.one_in_most = one_in;
    };
    add(2, point.p50_ns, "50 %");
    add(100, point.p99_ns, "99 %");
    add(1'000, point.p999_ns, "99.9 %");
    return curve;
}

Curve curve_from_buckets(const ReportPoint& point) {
    double total = 0;
    for (const LatencyBucket& bucket : point.latencies) total += static_cast<double>(bucket.count);
    if (total == 0) return curve_from_percentiles(point);
    Curve curve;
    double below = 0;
    std::size_t next_mark = 0;
    for (const LatencyBucket& bucket : point.latencies) {
        if (bucket.count == 0) continue;
        // Where this bucket begins and ends; the last operation of all is one in `total`.
        const double begins = total / (total - below);
        below += static_cast<double>(bucket.count);
        const double ends = below < total ? total / (total - below) : total;
        curve.points.push_back({.x = begins, .y = bucket.upper_ns, .mark = false});
        for (; next_mark < std::size(kPercentiles) && kPercentiles[next_mark].one_in <= ends; ++next_mark) {
            const Percentile& percentile = kPercentiles[next_mark];
            if (percentile.one_in > 1)
                curve.points.push_back(marked(point, percentile.label, percentile.one_in, bucket.upper_ns));
        }
        curve.points.push_back({.x = ends, .y = bucket.upper_ns, .mark = false});
    }
    curve.one_in_most = total;
    return curve;
}

// Up to the last operation.
PlotAxis percentile_axis(double one_in_most) {
    PlotAxis axis{.title = "percentile of operations", .ticks = {}, .logarithmic = true};
    for (const Percentile& percentile : kPercentiles) {
        if (percentile.one_in < one_in_most || axis.ticks.empty())
            axis.ticks.push_back({.value = percentile.one_in, .label = percentile.label});
    }
    const auto same = std::ranges::find(kPercentiles, one_in_most, &Percentile::one_in);
    axis.ticks.push_back(
        {.value = std::max(one_in_most, 2.0), .label = same == std::end(kPercentiles) ? "" : same->label});
    return axis;
}

PlotAxis time_axis(double least, double most) {
    PlotAxis axis{.title = "latency of an operation", .ticks = {}, .logarithmic = true};
    for (const double tick : log_ticks(least, most)) {
        const Scale scale = time_scale(tick);
        axis.ticks.push_back({.value = tick, .label = fixed(tick / scale.factor, 0) + " " + scale.unit});
    }
    return axis;
}

struct Range {
    double least = kNoFigure;
    double most = kNoFigure;
    double one_in_most = 0;
};

Range range_of(std::span<const ReportPoint> points) {
    Range range;
    for (const ReportPoint& point : points) {
        const Curve curve = curve_from_buckets(point);
        range.one_in_most = std::max(range.one_in_most, curve.one_in_most);
        for (const PlotPoint& place : curve.points) {
            if (!(place.y > 0) || !std::isfinite(place.y)) continue;
            // Not by std::min: the first one meets NaN.
            if (!(range.least <= place.y)) range.least = place.y;
            if (!(range.most >= place.y)) range.most = place.y;
        }
    }
    return range;
}

ReportPlot latency_plot(const std::string& id, const std::string& setting,
                        std::span<const ReportPoint> points, const Range& range,
                        std::span<const std::string> servers) {
    LinePlot plot{.id = id,
                  .title = "Latency: " + setting,
                  .x = percentile_axis(range.one_in_most),
                  .y = time_axis(range.least, range.most),
                  .series = {}};
    plot.description = plot.title + ". Percentiles of each server; the table beside it has the usual ones.";
    Table table{.caption = plot.title, .head = {"Server", "p50", "p99", "p99.9", "Max"}, .rows = {}};
    for (const ReportPoint& point : points) {
        const auto style =
            static_cast<std::size_t>(std::ranges::find(servers, point.server) - servers.begin());
        plot.series.push_back(
            {.name = point.server, .style = style, .points = curve_from_buckets(point).points});
        table.rows.push_back({point.server, time_text(point.p50_ns), time_text(point.p99_ns),
                              time_text(point.p999_ns), time_text(point.max_ns)});
    }
    return {.svg = svg_of(plot), .table = std::move(table)};
}

} // namespace

void add_latency_plots(std::vector<ReportPlot>& plots, const std::string& id,
                       std::span<const ReportPoint> points, std::span<const std::string> servers) {
    std::vector<ReportPoint> known;
    std::vector<std::string> settings;
    for (const ReportPoint& point : points) {
        if (curve_from_buckets(point).points.empty()) continue;
        known.push_back(point);
        if (std::ranges::find(settings, setting_text(point)) == settings.end())
            settings.push_back(setting_text(point));
    }
    const Range range = range_of(known); // the same axes for all panels
    const std::size_t count = std::min(settings.size(), kLatencyPanelsMax);
    for (std::size_t number = 0; number < count; ++number) {
        const std::size_t place = count == 1 ? 0 : number * (settings.size() - 1) / (count - 1);
        std::vector<ReportPoint> here;
        for (const ReportPoint& point : known) {
            if (setting_text(point) == settings[place]) here.push_back(point);
        }
        plots.push_back(
            latency_plot(id + "-latency-" + std::to_string(number), settings[place], here, range, servers));
    }
}

} // namespace viaduct::bench
