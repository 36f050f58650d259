// SPDX-License-Identifier: Apache-2.0
#include "bench/svg.h"

#include "bench/canvas.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace viaduct::bench {
namespace {

constexpr double kAreaHeight = 200;

// Where values lie between two ends on the paper.
class Ruler {
public:
    Ruler(const PlotAxis& axis, double from, double to) : axis_(axis), from_(from), to_(to) {
        if (axis.ticks.empty()) return;
        low_ = scaled(axis.ticks.front().value);
        high_ = scaled(axis.ticks.back().value);
    }

    // Within the ends; NaN for what has no place.
    double at(double value) const {
        const double place = scaled(value);
        if (!std::isfinite(place) || !std::isfinite(low_) || !std::isfinite(high_)) return kNoFigure;
        if (high_ <= low_) return (from_ + to_) / 2; // one tick: all in the middle
        return from_ + std::clamp((place - low_) / (high_ - low_), 0.0, 1.0) * (to_ - from_);
    }

private:
    double scaled(double value) const {
        if (!axis_.logarithmic) return value;
        return value > 0 ? std::log10(value) : kNoFigure;
    }

    const PlotAxis& axis_;
    double from_;
    double to_;
    double low_ = kNoFigure;
    double high_ = kNoFigure;
};

double width_of(const std::string& text) {
    return kCharacterWidth * static_cast<double>(length_of(text));
}

double widest(const std::vector<PlotTick>& ticks) {
    double width = 0;
    for (const PlotTick& tick : ticks) width = std::max(width, width_of(tick.label));
    return width;
}

// Labels below a horizontal axis; those without room beside the one before are left out, the last one is not.
void horizontal_ticks(Canvas& canvas, const PlotAxis& axis, const Ruler& ruler, double top, double bottom) {
    double free_from = 0;
    double last_from = kPlotWidth; // where the last label begins
    if (!axis.ticks.empty() && !axis.ticks.back().label.empty())
        last_from = ruler.at(axis.ticks.back().value) - width_of(axis.ticks.back().label) / 2;
    for (const PlotTick& tick : axis.ticks) {
        const double x = ruler.at(tick.value);
        if (!std::isfinite(x)) continue;
        canvas.line(x, top, x, bottom, "grid");
        if (tick.label.empty()) continue;
        const double half = width_of(tick.label) / 2;
        const double middle = std::min(x, kPlotWidth - 2 - half);
        const bool meets_last = &tick != &axis.ticks.back() && middle + half + 4 > last_from;
        if (middle - half < free_from || meets_last) continue;
        canvas.text(middle, bottom + 17, tick.label, "quiet", "middle");
        free_from = middle + half + 4;
    }
}

void draw_series(Canvas& canvas, const PlotSeries& series, const Ruler& x, const Ruler& y) {
    const std::string colour = series.reference ? "" : colour_class(series.style);
    const std::string line_class = colour + (series.reference ? "reference" : "curve");
    std::vector<double> places;
    for (const PlotPoint& point : series.points) {
        const double across = x.at(point.x);
        const double down = y.at(point.y);
        if (!std::isfinite(across) || !std::isfinite(down)) {
            canvas.path(places, line_class);
            places.clear();
            continue;
        }
        places.push_back(across);
        places.push_back(down);
    }
    canvas.path(places, line_class);
    if (series.reference) return;
    for (const PlotPoint& point : series.points) {
        const double across = x.at(point.x);
        const double down = y.at(point.y);
        if (!point.mark || !std::isfinite(across) || !std::isfinite(down)) continue;
        const double least = y.at(point.least);
        const double most = y.at(point.most);
        if (std::isfinite(least) && std::isfinite(most)) {
            canvas.line(across, least, across, most, colour + "reach");
            canvas.line(across - 3, least, across + 3, least, colour + "reach");
            canvas.line(across - 3, most, across + 3, most, colour + "reach");
        }
        canvas.mark(across, down, series.style, point.hover);
    }
}

bool something_to_see(const LinePlot& plot) {
    const auto seen = [](const PlotPoint& point) { return std::isfinite(point.x) && std::isfinite(point.y); };
    const auto any = [&](const PlotSeries& series) {
        return !series.reference && std::ranges::any_of(series.points, seen);
    };
    return std::ranges::any_of(plot.series, any);
}

// Each name once.
std::vector<Canvas::LegendEntry> legend_of(const BarPlot& plot) {
    std::vector<Canvas::LegendEntry> entries;
    for (const BarGroup& group : plot.groups) {
        for (const PlotBar& bar : group.bars) {
            if (std::ranges::find(entries, bar.name, &Canvas::LegendEntry::name) == entries.end())
                entries.push_back({.name = bar.name, .style = bar.style});
        }
    }
    if (std::isfinite(plot.reference))
        entries.push_back({.name = plot.reference_name, .style = 0, .reference = true});
    return entries;
}

void draw_bar(Canvas& canvas, const PlotBar& bar, const Ruler& ruler, double top, double height) {
    const double from = ruler.at(0);
    const double to = ruler.at(bar.value);
    const double middle = top + height / 2;
    if (!std::isfinite(to)) {
        canvas.text(from + 6, middle + 4.5, "not measured", "quiet");
        return;
    }
    canvas.rectangle(from, top, to - from, height, colour_class(bar.style) + "bar", bar.hover);
    double end = to;
    const double least = ruler.at(bar.least);
    const double most = ruler.at(bar.most);
    if (std::isfinite(least) && std::isfinite(most)) {
        canvas.line(least, middle, most, middle, "whisker");
        canvas.line(least, middle - 3, least, middle + 3, "whisker");
        canvas.line(most, middle - 3, most, middle + 3, "whisker");
        end = std::max(end, most);
    }
    canvas.text(end + 6, middle + 4.5, bar.label, "");
}

} // namespace

std::string svg_of(const LinePlot& plot) {
    Canvas canvas;
    double y = canvas.title(plot.title);
    std::vector<Canvas::LegendEntry> entries;
    entries.reserve(plot.series.size());
    for (const PlotSeries& series : plot.series)
        entries.push_back({.name = series.name, .style = series.style, .reference = series.reference});
    y = canvas.legend(y, entries);
    canvas.text(8, y += 20, plot.y.title, "quiet");

    const double top = y + 12;
    const double bottom = top + kAreaHeight;
    const double left = 16 + widest(plot.y.ticks);
    const double right = kPlotWidth - 14;
    const Ruler x_ruler{plot.x, left + 10, right - 12};
    const Ruler y_ruler{plot.y, bottom, top};
    horizontal_ticks(canvas, plot.x, x_ruler, top, bottom);
    for (const PlotTick& tick : plot.y.ticks) {
        const double at = y_ruler.at(tick.value);
        if (!std::isfinite(at)) continue;
        canvas.line(left, at, right, at, "grid");
        canvas.text(left - 6, at + 4.5, tick.label, "quiet", "end");
    }
    canvas.line(left, bottom, right, bottom, "axis");
    canvas.text((left + right) / 2, bottom + 36, plot.x.title, "quiet", "middle");
    for (const PlotSeries& series : plot.series) draw_series(canvas, series, x_ruler, y_ruler);
    if (!something_to_see(plot))
        canvas.text((left + right) / 2, (top + bottom) / 2, "not measured", "quiet", "middle");
    return canvas.finish(plot.id, plot.title, plot.description, bottom + 46);
}

std::string svg_of(const BarPlot& plot) {
    constexpr double kBar = 15;
    constexpr double kGap = 4;
    constexpr double kNameHeight = 22;

    Canvas canvas;
    double y = canvas.title(plot.title);
    y = canvas.legend(y, legend_of(plot)) + 10;
    double bottom = y + 2;
    double label_width = 0;
    for (const BarGroup& group : plot.groups) {
        bottom += (group.name.empty() ? 6 : kNameHeight) +
                  static_cast<double>(group.bars.size()) * (kBar + kGap) + 4;
        for (const PlotBar& bar : group.bars) label_width = std::max(label_width, width_of(bar.label));
    }
    const double left = 14;
    const double right = kPlotWidth - 14 - label_width - 6;
    const Ruler ruler{plot.values, left, right};
    horizontal_ticks(canvas, plot.values, ruler, y, bottom);
    canvas.text((left + right) / 2, bottom + 36, plot.values.title, "quiet", "middle");
    const double top = y;
    std::vector<std::pair<double, const std::string*>> names;
    for (const BarGroup& group : plot.groups) {
        if (group.name.empty()) {
            y += 6;
        } else {
            names.emplace_back(y + 16, &group.name);
            y += kNameHeight;
        }
        for (const PlotBar& bar : group.bars) {
            draw_bar(canvas, bar, ruler, y, kBar);
            y += kBar + kGap;
        }
        y += 4;
    }
    canvas.line(left, top, left, bottom, "axis");
    const double reference = ruler.at(plot.reference);
    if (std::isfinite(reference)) canvas.line(reference, top, reference, bottom, "reference");
    // Last, as the line for reference goes behind them.
    for (const auto& [at, name] : names) canvas.text(left + 4, at, *name, "");
    return canvas.finish(plot.id, plot.title, plot.description, bottom + 46);
}

} // namespace viaduct::bench
