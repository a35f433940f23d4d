#include "bench/iobench/report/chart.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

// Pixels. A character of 12 pixels is at most about 7.6 wide on average in the widest of the usual fonts.
constexpr double kCharacter = 7.6;
constexpr std::size_t kLongestLabel = 36;
constexpr int kBarsWidth = 760, kBar = 15, kBetweenGroups = 14, kAxisHeight = 32;
constexpr int kLinesWidth = 340, kLinesHeight = 236;

// gnuplot's point types and the same shapes as SVG, around 0, about 2 wide.
struct Shape {
    int point_type;
    const char* svg;
};
constexpr std::array<Shape, kLooks> kShapes = {{{7, "<circle r='1'/>"},
                                                {5, "<path d='M-1,-1h2v2h-2z'/>"},
                                                {9, "<path d='M0,-1.33L-1.33,.67h2.66z'/>"},
                                                {13, "<path d='M0,-1.41L1.41,0L0,1.41L-1.41,0z'/>"},
                                                {11, "<path d='M0,1.33L-1.33,-.67h2.66z'/>"},
                                                {6, "<circle r='.9' class='open'/>"},
                                                {4, "<path class='open' d='M-.9,-.9h1.8v1.8h-1.8z'/>"},
                                                {8, "<path class='open' d='M0,-1.33L-1.33,.67h2.66z'/>"}}};

/// A colour that stands for a look until inlined() replaces it.
std::string placeholder(std::size_t look) {
    char text[16];
    std::snprintf(text, sizeof text, "#0100%02zx", look + 1);
    return text;
}

std::string placeholder_in_svg(std::size_t look) {
    char text[40];
    std::snprintf(text, sizeof text, "rgb(  1,   0, %3zu)", look + 1);
    return text;
}

std::string plain(double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.9g", value);
    return text;
}

std::string axis_range(const Scale& scale) {
    return "[" + plain(scale.low) + ":" + plain(scale.high) + "]";
}

std::string beginning(int width, int height) {
    return "set terminal svg noenhanced size " + std::to_string(width) + "," + std::to_string(height) +
           " font 'sans-serif,12'\nset encoding utf8\nunset key\nset tics nomirror scale 0.4\n"
           "set grid lw 0.5\nset style fill solid 1 noborder\nset errorbars 0.6\n";
}

/// One tic, "'64k' 65536".
std::string tic(const std::string& label, double at) {
    return gnuplot_string(shortened(label, kLongestLabel)) + " " + plain(at);
}

int left_margin(const std::vector<std::string>& labels) {
    std::size_t longest = 4;
    for (const auto& label : labels) longest = std::max(longest, length(shortened(label, kLongestLabel)));
    return static_cast<int>(static_cast<double>(longest) * kCharacter) + 14;
}

/// Left of the numbers of a vertical axis.
int left_margin(const Scale& scale) {
    const std::size_t digits = std::max({plain(scale.high).size(), plain(scale.low).size(), std::size_t{4}});
    return static_cast<int>(static_cast<double>(digits) * kCharacter) + 16;
}

/// A datablock $sN for each series: value, low, high, place, half of the bar's height, value in words.
void write_bars(std::ostringstream& script, const Chart& chart) {
    const auto count = static_cast<double>(chart.series.size());
    const double group = count * kBar / (count * kBar + kBetweenGroups), bar = group / count;
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        script << "$s" << s << " << END\n";
        const auto& marks = chart.series[s].marks;
        for (std::size_t i = 0; i < marks.size(); ++i) {
            if (!marks[i]) continue;
            const double at = static_cast<double>(i) - group / 2 + bar * (static_cast<double>(s) + 0.5);
            script << plain(marks[i]->value) << " " << plain(marks[i]->low) << " " << plain(marks[i]->high)
                   << " " << plain(at) << " " << plain(0.42 * bar) << " " << number(marks[i]->value) << "\n";
        }
        script << "END\n";
    }
}

std::string bars_script(const Chart& chart) {
    const int groups = static_cast<int>(chart.labels.size());
    const int of_group = static_cast<int>(chart.series.size()) * kBar + kBetweenGroups;
    const int height = groups * of_group + kAxisHeight + 8, left = left_margin(chart.labels);
    std::ostringstream script;
    script << beginning(kBarsWidth, height);
    script << "set border 2\nset xrange " << axis_range(chart.scale) << "\nset yrange [" << groups - 0.5
           << ":-0.5]\nset format x '%.10g'\n"
           << (chart.scale.logarithmic ? "set logscale x\n" : "")
           << "set grid noytics xtics\nset xtics scale 0\nset ytics scale 0 (";
    for (std::size_t i = 0; i < chart.labels.size(); ++i)
        script << (i == 0 ? "" : ", ") << tic(chart.labels[i], static_cast<double>(i));
    script << ")\nset lmargin at screen " << plain(double{1} * left / kBarsWidth)
           << "\nset rmargin at screen " << plain(1 - 84.0 / kBarsWidth) << "\nset bmargin at screen "
           << plain(double{kAxisHeight} / height) << "\nset tmargin at screen " << plain(1 - 6.0 / height)
           << "\n";
    write_bars(script, chart);
    std::string before = "plot ";
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        if (std::none_of(chart.series[s].marks.begin(), chart.series[s].marks.end(),
                         [](const auto& mark) { return mark.has_value(); }))
            continue;
        const std::string data = "$s" + std::to_string(s), look = placeholder(chart.series[s].look);
        const int point = kShapes.at(chart.series[s].look).point_type;
        if (!chart.scale.logarithmic)
            script << before << data << " using 1:4:(0):1:($4-$5):($4+$5) with boxxyerror lc rgb '" << look
                   << "', " << data << " using 1:4:2:3 with xerrorbars pt 0 lw 1.2 lc rgb 'black'";
        else
            script << before << data << " using 1:4:2:3 with xerrorbars pt " << point
                   << " ps 0.8 lw 1.4 lc rgb '" << look << "'";
        script << ", " << data << " using 3:4:6 with labels left offset 0.9,0";
        before = ", ";
    }
    return before == "plot " ? "" : script.str() + "\n";
}

/// Labels of the numbers, as many as have room.
std::string number_tics(const Chart& chart) {
    std::size_t longest = 1;
    for (const auto& label : chart.labels) longest = std::max(longest, length(label));
    const double room = kLinesWidth - left_margin(chart.scale) - 16;
    const double needed =
        (static_cast<double>(longest) + 0.6) * kCharacter * static_cast<double>(chart.labels.size());
    const auto step = static_cast<std::size_t>(std::max(1.0, std::ceil(needed / room)));
    std::string text;
    for (std::size_t i = 0; i < chart.labels.size(); i += step)
        text += (i == 0 ? "" : ", ") + tic(chart.labels[i], chart.numbers[i]);
    return text;
}

std::string lines_script(const Chart& chart) {
    std::ostringstream script;
    script << beginning(kLinesWidth, kLinesHeight);
    script << "set border 3\nset logscale x 2\nset xrange [" << plain(chart.numbers.front() / 1.3) << ":"
           << plain(chart.numbers.back() * 1.3) << "]\nset yrange " << axis_range(chart.scale)
           << "\nset format y '%.10g'\n"
           << (chart.scale.logarithmic ? "set logscale y\n" : "") << "set xtics (" << number_tics(chart)
           << ")\nset grid noxtics ytics\nset lmargin at screen "
           << plain(double{1} * left_margin(chart.scale) / kLinesWidth)
           << "\nset rmargin at screen 0.97\nset bmargin at screen 0.14\nset tmargin at screen 0.96\n";
    std::string plots, before = "plot ";
    for (std::size_t s = 0; s < chart.series.size(); ++s) {
        const Series& series = chart.series[s];
        std::size_t marks = 0;
        script << "$s" << s << " << END\n";
        for (std::size_t i = 0; i < series.marks.size(); ++i)
            if (const auto& mark = series.marks[i]; mark && ++marks > 0)
                script << plain(chart.numbers[i]) << " " << plain(mark->value) << " " << plain(mark->low)
                       << " " << plain(mark->high) << "\n";
        script << "END\n";
        if (marks == 0) continue;
        plots += before + "$s" + std::to_string(s) + " with yerrorlines pt " +
                 std::to_string(kShapes.at(series.look).point_type) + " ps 0.75 lw 1.6 lc rgb '" +
                 placeholder(series.look) + "'";
        before = ", ";
    }
    return plots.empty() ? "" : script.str() + plots + "\n";
}

void replace_all(std::string& text, const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

/// Removes <name>…</name> everywhere.
void remove_elements(std::string& text, const std::string& name) {
    const std::string open = "<" + name + ">", close = "</" + name + ">";
    for (std::size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
        const std::size_t end = text.find(close, at);
        if (end == std::string::npos) return;
        text.erase(at, end + close.size() - at);
    }
}

/// The value of an attribute in the tag.
std::string attribute(const std::string& tag, const std::string& name) {
    const std::size_t at = tag.find(" " + name + "=\"");
    if (at == std::string::npos) return "";
    const std::size_t begin = at + name.size() + 3;
    return tag.substr(begin, tag.find('"', begin) - begin);
}

double largest(const std::vector<Chart>& charts, double Mark::*end, double start, bool least) {
    double found = start;
    for (const auto& chart : charts)
        for (const auto& series : chart.series)
            for (const auto& mark : series.marks)
                if (mark) found = least ? std::min(found, (*mark).*end) : std::max(found, (*mark).*end);
    return found;
}

/// The next of 1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10 times a power of ten.
double round_up(double value) {
    const double power = std::pow(10, std::floor(std::log10(value)));
    for (const double step : {1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0})
        if (value <= step * power) return step * power;
    return 10 * power;
}

}  // namespace

Scale scale_of(const std::vector<Chart>& charts) {
    const double least = largest(charts, &Mark::low, 1e300, true);
    const double most = largest(charts, &Mark::high, -1e300, false);
    if (least > 0 && most / least > 50)
        return {std::pow(10, std::floor(std::log10(least))), std::pow(10, std::ceil(std::log10(most))), true};
    return {least < 0 ? -round_up(-least) : 0, most > 0 ? round_up(most) : 1, false};
}

std::string script_of(const Chart& chart) {
    if (chart.labels.empty()) return "";
    return chart.kind == Chart::Kind::bars ? bars_script(chart) : lines_script(chart);
}

std::string inlined(const std::string& svg, const std::string& id, const std::string& description) {
    const std::size_t begin = svg.find("<svg"), end = svg.find('>', begin);
    if (begin == std::string::npos || end == std::string::npos) return "";
    const std::string tag = svg.substr(begin, end - begin);
    std::string body = svg.substr(end + 1);
    remove_elements(body, "title");
    remove_elements(body, "desc");
    for (const char* black : {"'black'", "\"black\"", "'rgb(  0,   0,   0)'", "'gray'", "\"gray\""})
        replace_all(body, black, "'currentColor'");
    for (std::size_t look = 0; look < kLooks; ++look)
        replace_all(body, placeholder_in_svg(look), "var(--look-" + std::to_string(look) + ")");
    for (const char* quote : {"'", "\""})
        replace_all(body, std::string(" id=") + quote, " id=" + (quote + id) + "-");
    replace_all(body, "xlink:href='#", "href='#" + id + "-");
    replace_all(body, " font-family=\"sans-serif\"", "");
    return "<svg viewBox=\"" + html(attribute(tag, "viewBox")) + "\" role=\"img\" aria-label=\"" +
           html(description) + "\">" + body;
}

Result<std::string> draw(const Chart& chart, const Gnuplot& gnuplot, const std::string& id,
                         const std::string& description) {
    const std::string script = script_of(chart);
    if (script.empty()) return fail(EINVAL, "there is nothing to plot");
    const auto svg = gnuplot.run(script);
    if (!svg) return fail(svg.error());
    std::string element = inlined(*svg, id, description);
    if (element.empty()) return fail(EIO, "gnuplot wrote no SVG");
    return element;
}

std::string swatch(std::size_t look, Chart::Kind kind) {
    const std::string colour = "var(--look-" + std::to_string(look) + ")";
    const std::string start = "<svg class='swatch' viewBox='-9 -6 18 12' aria-hidden='true' fill='" + colour +
                              "' stroke='" + colour + "'>";
    if (kind == Chart::Kind::bars) return start + "<path d='M-8,-4h16v8h-16z'/></svg>";
    return start + "<path d='M-9,0h18'/><g transform='scale(4)' stroke-width='.3'>" + kShapes.at(look).svg +
           "</g></svg>";
}

}  // namespace tierfs::iobench
