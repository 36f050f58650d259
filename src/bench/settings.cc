// SPDX-License-Identifier: Apache-2.0
#include "bench/settings.h"

#include <algorithm>

namespace viaduct::bench {
namespace {

constexpr Setting kSettings[] = {Setting::queues, Setting::threads, Setting::depth};

std::string counted(std::uint32_t count, const std::string& one) {
    return std::to_string(count) + " " + one + (count == 1 ? "" : "s");
}

std::string text_of(Setting setting, const ReportPoint& point) {
    switch (setting) {
    case Setting::queues:
        return counted(point.queues, "queue");
    case Setting::threads:
        return counted(point.threads, "thread");
    case Setting::depth:
        return "depth " + std::to_string(point.depth);
    }
    return {};
}

// Whether a server was measured more than once at one place.
bool ambiguous(Setting varied, std::span<const ReportPoint> points) {
    for (std::size_t one = 0; one < points.size(); ++one) {
        for (std::size_t other = one + 1; other < points.size(); ++other) {
            if (points[one].server == points[other].server &&
                value_of(varied, points[one]) == value_of(varied, points[other]))
                return true;
        }
    }
    return false;
}

} // namespace

std::string name_of(Setting setting) {
    switch (setting) {
    case Setting::queues:
        return "queues";
    case Setting::threads:
        return "threads";
    case Setting::depth:
        return "depth";
    }
    return {};
}

std::string heading_of(Setting setting) {
    std::string name = name_of(setting);
    name.front() = static_cast<char>(name.front() - 'a' + 'A');
    return name;
}

std::uint32_t value_of(Setting setting, const ReportPoint& point) {
    switch (setting) {
    case Setting::queues:
        return point.queues;
    case Setting::threads:
        return point.threads;
    case Setting::depth:
        return point.depth;
    }
    return 0;
}

std::vector<std::uint32_t> values_of(Setting setting, std::span<const ReportPoint> points) {
    std::vector<std::uint32_t> values;
    for (const ReportPoint& point : points) values.push_back(value_of(setting, point));
    std::ranges::sort(values);
    const auto [first, last] = std::ranges::unique(values);
    values.erase(first, last);
    return values;
}

Setting most_varied(std::span<const ReportPoint> points) {
    return *std::ranges::max_element(kSettings, {},
                                     [&](Setting setting) { return values_of(setting, points).size(); });
}

std::string setting_text(const ReportPoint& point) {
    return text_of(Setting::queues, point) + ", " + text_of(Setting::threads, point) + ", " +
           text_of(Setting::depth, point);
}

std::string varying_text(const ReportPoint& point, std::span<const ReportPoint> all) {
    std::string text;
    for (const Setting setting : kSettings) {
        if (values_of(setting, all).size() > 1) text += (text.empty() ? "" : ", ") + text_of(setting, point);
    }
    return text;
}

std::vector<Panel> panels_of(Setting varied, std::span<const ReportPoint> points) {
    if (!ambiguous(varied, points)) return {{.name = {}, .points = {points.begin(), points.end()}}};
    std::vector<Panel> panels;
    for (const ReportPoint& point : points) {
        std::string name;
        for (const Setting setting : kSettings) {
            if (setting != varied) name += (name.empty() ? "" : ", ") + text_of(setting, point);
        }
        auto panel = std::ranges::find(panels, name, &Panel::name);
        if (panel == panels.end()) panel = panels.insert(panel, {.name = name, .points = {}});
        panel->points.push_back(point);
    }
    return panels;
}

} // namespace viaduct::bench
