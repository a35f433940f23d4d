// A plot: its marks, series and scales, and its script for gnuplot.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/report/gnuplot.hpp"

namespace tierfs::iobench {

/// Colours and shapes of points of the page's plots; a ninth series looks like the first.
constexpr std::size_t kLooks = 8;

/// A median and the ends of its interval.
struct Mark {
    double value = 0, low = 0, high = 0;
};

struct Series {
    std::string label;
    std::size_t look = 0;                    ///< below kLooks
    std::vector<std::optional<Mark>> marks;  ///< one for each label of the chart
};

/// The axis of the values. Panels beside each other share one, so that they compare.
struct Scale {
    double low = 0, high = 1;
    bool logarithmic = false;
};

/// `bars` lie (long names have room to their left), each case a group; on a logarithmic scale, where the
/// length of a bar would say nothing, they are points. `lines` have numbers below: block sizes, depths.
struct Chart {
    enum class Kind { bars, lines };
    Kind kind = Kind::bars;
    std::string title;                ///< empty where there is one chart in a figure
    std::vector<std::string> labels;  ///< of cases, or of the numbers
    std::vector<double> numbers;      ///< lines: over 0, rising
    std::vector<Series> series;
    Scale scale;
};

/// Logarithmic when the marks are all over 0 and span more than a factor of 50; otherwise from 0.
Scale scale_of(const std::vector<Chart>& charts);

/// An <svg> element to stand in a page. Text and lines have the page's colour (currentColor), series the
/// custom properties --look-0 to --look-7. `id` begins each id inside; `description` is for screen readers.
Result<std::string> draw(const Chart& chart, const Gnuplot& gnuplot, const std::string& id,
                         const std::string& description);

/// gnuplot's script for the chart; for tests too.
std::string script_of(const Chart& chart);

/// Made fit to stand in a page from what gnuplot wrote: see draw.
std::string inlined(const std::string& svg, const std::string& id, const std::string& description);

/// A sample of the series' colour and shape, as an <svg> element.
std::string swatch(std::size_t look, Chart::Kind kind);

}  // namespace tierfs::iobench
