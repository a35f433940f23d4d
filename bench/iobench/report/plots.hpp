// The choice of plots for a section.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/report/chart.hpp"
#include "bench/iobench/report/sections.hpp"

namespace tierfs::iobench {

/// One metric: a chart, or several beside each other.
struct Plot {
    std::string title;  ///< "p99_us, us (less is better)"
    std::string axis;   ///< what stands below lines: "block size"; empty below bars
    std::vector<Chart> panels;
    std::size_t left_out = 0;  ///< panels beyond kMostPanels
};

constexpr std::size_t kMostPlots = 8;    ///< of a section
constexpr std::size_t kMostPanels = 24;  ///< of a plot
constexpr std::size_t kMostGroups = 60;  ///< cases in a chart of bars

/// A number in the name of a case: read-64k-direct has 65536 of "size", prefetch-8-w4 has 8 of "prefetch" and
/// 4 of "w".
struct Dimension {
    std::string name;
    std::string rest;  ///< the case with "*" in the number's place
    std::string label;
    double number = 0;  ///< over 0
};

std::vector<Dimension> dimensions_of(const std::string& test);

/// Lines over a number that the names of cases hold, where at least three cases differ in that number alone:
/// a panel for each set of such cases, the targets as lines (of one target: one panel, the sets as lines).
/// Bars for the other cases. About kMostPlots plots at most.
std::vector<Plot> plots_of(const Section& section);

}  // namespace tierfs::iobench
