// SPDX-License-Identifier: Apache-2.0
#include "bench/canvas.h"

#include "bench/markup.h"
#include "bench/units.h"

#include <algorithm>

namespace viaduct::bench {
namespace {

constexpr std::size_t kStyles = 6;

// Colours that stay apart for all common kinds of colour blindness (after Okabe and Ito), each at least 3:1
// against its background.
constexpr const char* kStyle = R"(<style>
.vp { --ink: #1c2126; --quiet: #555f69; --grid: #dde2e7; --back: #ffffff; font: 13px system-ui, "Segoe UI",
  "DejaVu Sans", sans-serif; }
.vp .s0 { --c: #0072b2; } .vp .s1 { --c: #d55e00; } .vp .s2 { --c: #007f5f; }
.vp .s3 { --c: #a8478a; } .vp .s4 { --c: #8a6d00; } .vp .s5 { --c: #58626c; }
@media (prefers-color-scheme: dark) {
  .vp { --ink: #e4e8ec; --quiet: #a3adb8; --grid: #333b43; --back: #15191d; }
  .vp .s0 { --c: #56b4e9; } .vp .s1 { --c: #ff9e4a; } .vp .s2 { --c: #2fc99a; }
  .vp .s3 { --c: #e39bcb; } .vp .s4 { --c: #e5c94f; } .vp .s5 { --c: #aab4be; }
}
.vp .back { fill: var(--back); }
.vp text { fill: var(--ink); paint-order: stroke; stroke: var(--back); stroke-width: 3px; }
.vp text.quiet { fill: var(--quiet); }
.vp .head { font-weight: 600; font-size: 14px; }
.vp .grid { stroke: var(--grid); stroke-width: 1; } .vp .axis { stroke: var(--quiet); stroke-width: 1; }
.vp .curve { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.vp .reference { fill: none; stroke: var(--quiet); stroke-width: 1.5; stroke-dasharray: 5 4; }
.vp .whisker { stroke: var(--ink); stroke-width: 1.25; } .vp .reach { stroke: var(--c); stroke-width: 1.25; }
.vp .bar, .vp .mark { fill: var(--c); } .vp .mark { stroke: var(--back); stroke-width: 1; }
.vp .hit { fill: transparent; }
</style>
)";

std::string number(double value) {
    return fixed(value, 1);
}

std::string attribute(std::string_view name, double value) {
    return " " + std::string{name} + "=\"" + number(value) + "\"";
}

std::string class_attribute(std::string_view css_class) {
    return " class=\"" + std::string{css_class} + "\"";
}

} // namespace

std::string colour_class(std::size_t style) {
    return "s" + std::to_string(style % kStyles) + " ";
}

std::size_t length_of(std::string_view utf8) {
    return static_cast<std::size_t>(std::ranges::count_if(
        utf8, [](char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) != 0x80; }));
}

std::vector<std::string> wrapped(std::string_view text, std::size_t most) {
    std::vector<std::string> lines;
    std::string line;
    while (!text.empty()) {
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(std::min(text.size(), word.size() + 1));
        if (!line.empty() && length_of(line) + 1 + length_of(word) > most) {
            lines.push_back(std::move(line));
            line.clear();
        }
        if (!line.empty()) line += ' ';
        line += word;
    }
    if (!line.empty()) lines.push_back(std::move(line));
    return lines;
}

void Canvas::line(double x1, double y1, double x2, double y2, std::string_view css_class) {
    body_ += "<line" + attribute("x1", x1) + attribute("y1", y1) + attribute("x2", x2) + attribute("y2", y2) +
             class_attribute(css_class) + "/>\n";
}

void Canvas::rectangle(double x, double y, double width, double height, std::string_view css_class,
                       std::string_view hover) {
    body_ += "<rect" + attribute("x", x) + attribute("y", y) + attribute("width", width) +
             attribute("height", height) + class_attribute(css_class) + ">" +
             (hover.empty() ? "" : element("title", hover)) + "</rect>\n";
}

void Canvas::text(double x, double y, std::string_view text, std::string_view css_class,
                  std::string_view anchor) {
    body_ += element("text", text,
                     attribute("x", x) + attribute("y", y) + " text-anchor=\"" + std::string{anchor} + "\"" +
                         (css_class.empty() ? "" : class_attribute(css_class))) +
             "\n";
}

void Canvas::path(const std::vector<double>& places, std::string_view css_class) {
    if (places.size() < 4) return;
    body_ += "<polyline" + class_attribute(css_class) + " points=\"";
    for (std::size_t index = 0; index + 1 < places.size(); index += 2)
        body_ += (index > 0 ? " " : "") + number(places[index]) + "," + number(places[index + 1]);
    body_ += "\"/>\n";
}

void Canvas::mark(double x, double y, std::size_t style, std::string_view hover) {
    // Around the origin; all of about the same area.
    constexpr const char* kMarks[kStyles] = {
        R"(<circle class="mark" r="4.5"/>)",
        R"(<rect class="mark" x="-4" y="-4" width="8" height="8"/>)",
        R"(<path class="mark" d="M0-5.5 5 4H-5z"/>)",
        R"(<path class="mark" d="M0-6 6 0 0 6-6 0z"/>)",
        R"(<path class="mark" d="M0 5.5 5-4H-5z"/>)",
        R"(<path class="mark" d="M-2-6H2V-2H6V2H2V6H-2V2H-6V-2H-2z"/>)",
    };
    body_ += "<g class=\"" + colour_class(style) + "\" transform=\"translate(" + number(x) + " " + number(y) +
             ")\">";
    if (!hover.empty()) body_ += element("title", hover) + R"(<circle class="hit" r="11"/>)";
    body_ += kMarks[style % kStyles];
    body_ += "</g>\n";
}

double Canvas::legend(double y, const std::vector<LegendEntry>& entries) {
    constexpr double kRow = 20;
    constexpr double kSign = 28; // width of a line with its mark
    double x = 8;
    y += kRow;
    for (const LegendEntry& entry : entries) {
        const double width = kSign + kCharacterWidth * static_cast<double>(length_of(entry.name)) + 14;
        if (x > 8 && x + width > kPlotWidth) {
            x = 8;
            y += kRow;
        }
        if (entry.reference) {
            line(x, y - 4, x + kSign - 6, y - 4, "reference");
        } else {
            line(x, y - 4, x + kSign - 6, y - 4, colour_class(entry.style) + "curve");
            mark(x + (kSign - 6) / 2, y - 4, entry.style);
        }
        text(x + kSign, y, entry.name, "");
        x += width;
    }
    return y + 4;
}

double Canvas::title(std::string_view text_) {
    double y = 0;
    for (const std::string& row : wrapped(text_, 54)) text(8, y += 20, row, "head");
    return y + 2;
}

std::string Canvas::finish(std::string_view id, std::string_view title, std::string_view description,
                           double height) const {
    const std::string name{id};
    return R"(<svg xmlns="http://www.w3.org/2000/svg" class="vp" viewBox="0 0 )" + fixed(kPlotWidth, 0) +
           " " + fixed(height, 0) + "\" width=\"" + fixed(kPlotWidth, 0) + "\" height=\"" + fixed(height, 0) +
           "\" role=\"img\" id=\"" + name + "\" aria-labelledby=\"" + name + "-title " + name + "-text\">\n" +
           element("title", title, " id=\"" + name + "-title\"") +
           element("desc", description, " id=\"" + name + "-text\"") + "\n" + kStyle +
           "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n" + body_ + "</svg>\n";
}

} // namespace viaduct::bench
