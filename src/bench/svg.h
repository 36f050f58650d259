// SPDX-License-Identifier: Apache-2.0
//
// Plots as SVG: one element each that carries its own style (light and dark), so that it is good inside a
// page and as a file.
//
// All texts are plain and are escaped here.  A series is told by its colour and by its mark: the style number
// stands for both.  Points without a finite place are left out, and the line has a gap there.
#pragma once

#include "bench/units.h"

#include <cstddef>
#include <string>
#include <vector>

namespace viaduct::bench {

struct PlotTick {
    double value = 0;
    std::string label;
};

struct PlotAxis {
    std::string title;
    std::vector<PlotTick> ticks; // ascending; the first and the last are the ends of the axis
    bool logarithmic = false;    // what is not above 0 then has no place
};

struct PlotPoint {
    double x = 0;
    double y = 0;
    double least = kNoFigure; // a whisker from here
    double most = kNoFigure;  // to here
    std::string hover;
    bool mark = true; // false: only the line passes there
};

struct PlotSeries {
    std::string name;
    std::size_t style = 0;
    std::vector<PlotPoint> points; // by x, ascending
    bool reference = false;        // a grey dashed line without marks
};

struct LinePlot {
    std::string id; // unique in the page; letters, digits and '-'
    std::string title;
    std::string description; // for who does not see it
    PlotAxis x;
    PlotAxis y;
    std::vector<PlotSeries> series;
};
std::string svg_of(const LinePlot& plot);

struct PlotBar {
    std::string name;
    std::size_t style = 0;
    double value = kNoFigure;
    double least = kNoFigure;
    double most = kNoFigure;
    std::string label; // at the end of the bar
    std::string hover;
};

struct BarGroup {
    std::string name; // may be empty
    std::vector<PlotBar> bars;
};

// Horizontal bars.
struct BarPlot {
    std::string id;
    std::string title;
    std::string description;
    PlotAxis values; // begins at 0
    std::vector<BarGroup> groups;
    double reference = kNoFigure; // a dashed line there
    std::string reference_name;
};
std::string svg_of(const BarPlot& plot);

} // namespace viaduct::bench
