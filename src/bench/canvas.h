// SPDX-License-Identifier: Apache-2.0
//
// What plots have in common: the pen, the frame around a plot and its legend.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace viaduct::bench {

// 440 units: on a phone of 360 pixels the text of 13 units is then 10 pixels high.
inline constexpr double kPlotWidth = 440;
// Of a character of the plots' text; nobody measures it, so it is a wide one's.
inline constexpr double kCharacterWidth = 7;

// How many characters the text has.
std::size_t length_of(std::string_view utf8);
// Lines of at most `most` characters, cut at spaces as far as there are some.
std::vector<std::string> wrapped(std::string_view text, std::size_t most);

class Canvas {
public:
    // Classes are those of the style in canvas.cc.
    void line(double x1, double y1, double x2, double y2, std::string_view css_class);
    void rectangle(double x, double y, double width, double height, std::string_view css_class,
                   std::string_view hover = {});
    // `anchor`: start, middle or end.
    void text(double x, double y, std::string_view text, std::string_view css_class,
              std::string_view anchor = "start");
    // Points of a line, x and y in turn.
    void path(const std::vector<double>& places, std::string_view css_class);
    // The mark of a style, centred; with `hover` it shows that text, within reach of a finger.
    void mark(double x, double y, std::size_t style, std::string_view hover = {});
    // Entries of a legend from `y` down; where it ends.
    struct LegendEntry {
        std::string name;
        std::size_t style = 0;
        bool reference = false;
    };
    double legend(double y, const std::vector<LegendEntry>& entries);
    // The title from the top down; where it ends.
    double title(std::string_view text);

    // The whole element.
    std::string finish(std::string_view id, std::string_view title, std::string_view description,
                       double height) const;

private:
    std::string body_;
};

// "s2 " and so on: the class that sets the colour of a style.
std::string colour_class(std::size_t style);

} // namespace viaduct::bench
