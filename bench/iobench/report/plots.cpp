#include "bench/iobench/report/plots.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>

namespace tierfs::iobench {

namespace {

constexpr std::size_t kFewestPoints = 3;

/// Cases that differ in one number alone, rising.
struct Family {
    std::string rest;
    std::vector<Dimension> points;
    std::vector<std::string> tests;  ///< of each point
};

std::vector<std::string> split(const std::string& text) {
    std::vector<std::string> parts(1);
    for (const char c : text)
        if (c == '-')
            parts.emplace_back();
        else
            parts.back() += c;
    return parts;
}

std::string joined(const std::vector<std::string>& parts) {
    std::string text;
    for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : "-") + parts[i];
    return text;
}

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

/// "64k": 65536 of "size"; "qd8": 8 of "qd"; "8": 8 of "". None of other words.
std::optional<Dimension> number_in(const std::string& word) {
    const auto first = std::find_if(word.begin(), word.end(), is_digit);
    const auto last = std::find_if_not(first, word.end(), is_digit);
    const auto digits = static_cast<std::size_t>(last - first);
    if (digits == 0 || digits > 9) return std::nullopt;
    const std::string prefix(word.begin(), first), suffix(last, word.end());
    std::uint64_t value = std::stoull(std::string(first, last));
    const std::map<std::string, unsigned> shifts = {{"", 0}, {"k", 10}, {"m", 20}, {"g", 30}};
    const auto shift = shifts.find(suffix);
    if (shift == shifts.end() || value == 0) return std::nullopt;
    value <<= shift->second;
    return Dimension{.name = suffix.empty() ? prefix : "size",
                     .rest = prefix + "*",
                     .label = word.substr(prefix.size()),
                     .number = static_cast<double>(value)};
}

using Families = std::map<std::string, Family>;  // by rest

Families families_of(const std::vector<std::string>& tests, const std::string& dimension) {
    Families families;
    for (const auto& test : tests)
        for (const auto& point : dimensions_of(test)) {
            if (point.name != dimension) continue;
            Family& family = families[point.rest];
            const auto same = [&](const Dimension& other) { return other.number == point.number; };
            if (std::any_of(family.points.begin(), family.points.end(), same)) continue;
            const auto place =
                std::find_if(family.points.begin(), family.points.end(),
                             [&](const Dimension& other) { return other.number > point.number; });
            family.tests.insert(family.tests.begin() + (place - family.points.begin()), test);
            family.points.insert(place, point);
            family.rest = point.rest;
        }
    std::erase_if(families, [](const auto& entry) { return entry.second.points.size() < kFewestPoints; });
    return families;
}

/// The dimension with the most points in its longest family, and among equals the first.
std::string best_dimension(const std::vector<std::string>& tests) {
    std::set<std::string> seen;
    std::string best;
    std::size_t most = 0;
    for (const auto& test : tests)
        for (const auto& point : dimensions_of(test)) {
            if (!seen.insert(point.name).second) continue;
            for (const auto& [rest, family] : families_of(tests, point.name))
                if (family.points.size() > most) {
                    most = family.points.size();
                    best = point.name;
                }
        }
    return best;
}

/// The families in the order of their first case; a case belongs to one alone.
std::vector<Family> ordered_families(const std::vector<std::string>& tests) {
    auto families = families_of(tests, best_dimension(tests));
    std::vector<Family> ordered;
    std::set<std::string> placed;
    for (const auto& test : tests)
        for (const auto& point : dimensions_of(test)) {
            const auto found = families.find(point.rest);
            if (found == families.end() || placed.contains(test)) continue;
            for (const auto& member : found->second.tests) placed.insert(member);
            ordered.push_back(std::move(found->second));
            families.erase(found);
        }
    return ordered;
}

std::optional<Mark> mark_of(const ResultFigure* figure) {
    if (figure == nullptr) return std::nullopt;
    const Summary& summary = figure->summary;
    return Mark{summary.median, std::min(summary.ci95[0], summary.median),
                std::max(summary.ci95[1], summary.median)};
}

Series series_of(const Section& section, std::size_t column, const std::vector<std::string>& tests,
                 const std::string& metric) {
    Series series{.label = section.columns()[column].label, .look = column % kLooks, .marks = {}};
    for (const auto& test : tests) series.marks.push_back(mark_of(section.figure(column, test, metric)));
    return series;
}

Chart bars_of(const Section& section, const std::vector<std::string>& tests, const std::string& metric) {
    Chart chart{
        .kind = Chart::Kind::bars, .title = "", .labels = tests, .numbers = {}, .series = {}, .scale = {}};
    for (std::size_t column = 0; column < section.columns().size(); ++column)
        chart.series.push_back(series_of(section, column, tests, metric));
    return chart;
}

Chart lines_over(const Family& family) {
    Chart chart{.kind = Chart::Kind::lines,
                .title = family.rest,
                .labels = {},
                .numbers = {},
                .series = {},
                .scale = {}};
    for (const auto& point : family.points) {
        chart.labels.push_back(point.label);
        chart.numbers.push_back(point.number);
    }
    return chart;
}

/// A panel for each family, the columns as its lines.
std::vector<Chart> panels_of(const Section& section, const std::vector<Family>& families,
                             const std::string& metric) {
    std::vector<Chart> panels;
    for (const auto& family : families) {
        panels.push_back(lines_over(family));
        for (std::size_t column = 0; column < section.columns().size(); ++column)
            panels.back().series.push_back(series_of(section, column, family.tests, metric));
    }
    return panels;
}

bool have_the_same_numbers(const std::vector<Family>& families) {
    const auto numbers = [](const Family& family) {
        std::vector<double> all;
        for (const auto& point : family.points) all.push_back(point.number);
        return all;
    };
    return std::all_of(families.begin(), families.end(),
                       [&](const Family& family) { return numbers(family) == numbers(families.front()); });
}

/// One panel, the families as its lines: for a section with one column.
Chart families_as_lines(const Section& section, const std::vector<Family>& families,
                        const std::string& metric) {
    Chart chart = lines_over(families.front());
    chart.title.clear();
    for (std::size_t i = 0; i < families.size(); ++i) {
        chart.series.push_back(series_of(section, 0, families[i].tests, metric));
        chart.series.back().label = families[i].rest;
        chart.series.back().look = i;
    }
    return chart;
}

std::string title_of(const SectionMetric& metric) {
    const std::string unit = metric.unit.empty() || metric.unit == metric.name ? "" : ", " + metric.unit;
    return metric.name + unit + (metric.better == Better::higher ? " (more is better)" : " (less is better)");
}

void limit_panels(Plot& plot) {
    if (plot.panels.size() <= kMostPanels) return;
    plot.left_out = plot.panels.size() - kMostPanels;
    plot.panels.resize(kMostPanels);
}

void share_scale(Plot& plot) {
    const Scale scale = scale_of(plot.panels);
    for (auto& panel : plot.panels) panel.scale = scale;
}

std::vector<std::string> cases_with(const Section& section, const std::string& metric) {
    std::vector<std::string> tests;
    for (const auto& test : section.cases())
        if (section.anywhere(test, metric)) tests.push_back(test);
    return tests;
}

Plot lines_plot(const Section& section, const SectionMetric& metric, const std::vector<Family>& families) {
    Plot plot{.title = title_of(metric), .axis = families.front().points.front().name, .panels = {}};
    if (section.columns().size() == 1 && families.size() <= kLooks && have_the_same_numbers(families))
        plot.panels.push_back(families_as_lines(section, families, metric.name));
    else
        plot.panels = panels_of(section, families, metric.name);
    limit_panels(plot);
    share_scale(plot);
    return plot;
}

/// Bars of the cases in portions that can be looked at.
Plot bars_plot(const Section& section, const SectionMetric& metric, const std::vector<std::string>& tests) {
    Plot plot{.title = title_of(metric), .axis = "", .panels = {}};
    for (std::size_t at = 0; at < tests.size(); at += kMostGroups) {
        const auto begin = tests.begin() + static_cast<std::ptrdiff_t>(at);
        const auto end = begin + static_cast<std::ptrdiff_t>(std::min(kMostGroups, tests.size() - at));
        plot.panels.push_back(bars_of(section, {begin, end}, metric.name));
    }
    limit_panels(plot);
    share_scale(plot);
    return plot;
}

}  // namespace

std::vector<Dimension> dimensions_of(const std::string& test) {
    const auto words = split(test);
    std::vector<Dimension> found;
    for (std::size_t i = 0; i < words.size(); ++i) {
        auto dimension = number_in(words[i]);
        if (!dimension) continue;
        auto others = words;
        others[i] = dimension->rest;
        dimension->rest = joined(others);
        if (dimension->name.empty()) dimension->name = i == 0 ? "number" : words[i - 1];
        found.push_back(std::move(*dimension));
    }
    return found;
}

std::vector<Plot> plots_of(const Section& section) {
    std::vector<Plot> plots;
    for (const auto& metric : section.main_metrics()) {
        if (plots.size() >= kMostPlots) break;
        auto tests = cases_with(section, metric.name);
        const auto families = ordered_families(tests);
        if (!families.empty()) plots.push_back(lines_plot(section, metric, families));
        for (const auto& family : families)
            for (const auto& test : family.tests) std::erase(tests, test);
        if (!tests.empty()) plots.push_back(bars_plot(section, metric, tests));
    }
    return plots;
}

}  // namespace tierfs::iobench
