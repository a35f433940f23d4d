#include "bench/iobench/report/page.hpp"

#include <algorithm>
#include <cstdio>

#include "bench/iobench/report/markup.hpp"
#include "bench/iobench/report/style.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

/// Nothing may be loaded and nothing may run, whatever a file managed to bring into the page.
constexpr const char* kHead = R"(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
)";

constexpr const char* kReading =
    R"(<p>A figure is the median of its runs; in brackets stands its 95 % interval
(percentile bootstrap). Bars and points in plots are medians, the thin lines across them intervals.</p>
<p>A ratio is the first target's figure divided by another's. Where both were measured in turns, run by run, it is the
median of the rounds' ratios (paired), otherwise the ratio of the medians. <b>faster</b>: the ratio's interval excludes 1
on the side that is better (more of a rate, less of a time or of requests); <b>slower</b>: on the other side; <b>no
difference</b>: it includes 1. The verdict is about the first target.</p>
<p>MB are 10<sup>6</sup> bytes, MiB 2<sup>20</sup>. man iobench defines each figure.</p>
)";

std::string id_of(std::size_t section) {
    return "suite-" + std::to_string(section + 1);
}

/// What a reader has to know before the figures.
std::vector<std::string> all_doubts(const std::vector<NamedResult>& results) {
    std::vector<std::string> all;
    for (const auto& result : results)
        for (auto& doubt : doubts(result)) all.push_back(std::move(doubt));
    return all;
}

/// Other hosts, say, in files whose figures stand beside each other.
std::vector<std::string> all_differences(const std::vector<Section>& sections) {
    std::vector<std::string> all;
    for (const auto& section : sections)
        for (const auto* result : section.results())
            if (result != section.results().front())
                for (auto& difference : differences(*section.results().front(), *result))
                    all.push_back(std::move(difference));
    return all;
}

std::string contents(const std::vector<Section>& sections, bool warnings) {
    std::string items = element("li", element("a href='#headline'", "Headline"));
    if (warnings) items += element("li", element("a href='#warnings'", "Warnings"));
    for (std::size_t i = 0; i < sections.size(); ++i)
        items += element("li", element("a href='#" + id_of(i) + "'", html(sections[i].title())));
    items += element("li", element("a href='#reading'", "How to read this"));
    return element("nav aria-labelledby='contents'",
                   element("h2 id='contents'", "Contents") + element("ol", items));
}

std::string section_of(const Section& section, const std::string& id, Plotter& plotter) {
    return element("section id='" + id + "'",
                   element("h2", html(section.title())) + "\n" + plotter.plots(section, id) +
                       element("h3", "Figures") + "\n" + figure_tables(section) +
                       element("h3", "How it was measured") + "\n" + circumstances(section)) +
           "\n";
}

std::string header(const std::vector<NamedResult>& results) {
    std::string from = results.front().file.started, to = results.front().file.ended;
    for (const auto& result : results) {
        from = std::min(from, result.file.started);
        to = std::max(to, result.file.ended);
    }
    return element("header",
                   element("h1", "iobench report") +
                       element("p class='muted'", std::to_string(results.size()) +
                                                      (results.size() == 1 ? " result" : " results") +
                                                      ", measured " + html(from + " to " + to) + "."));
}

}  // namespace

std::string html_page(const std::vector<NamedResult>& results, const Gnuplot& gnuplot,
                      std::vector<std::string>& problems) {
    const auto sections = sections_of(results);
    Plotter plotter(gnuplot);
    std::string main;
    for (std::size_t i = 0; i < sections.size(); ++i) main += section_of(sections[i], id_of(i), plotter);

    auto warnings = plotter.problems();
    problems.insert(problems.end(), warnings.begin(), warnings.end());
    for (auto& difference : all_differences(sections)) warnings.push_back(std::move(difference));
    for (auto& doubt : all_doubts(results)) warnings.push_back(std::move(doubt));
    const std::string warned =
        warnings.empty()
            ? ""
            : element("section id='warnings'",
                      element("h2", "Warnings") + element("div class='warnings'", list_of(warnings)));
    const std::string headline =
        element("section id='headline'", element("h2", "Headline") + headline_tables(sections));
    const std::string reading = element("section id='reading'", element("h2", "How to read this") + kReading);
    return std::string(kHead) + element("title", "iobench report") + "\n" + element("style", kStyle) +
           "\n</head>\n<body>\n" + header(results) + "\n" + contents(sections, !warnings.empty()) +
           "\n<main>\n" + headline + "\n" + warned + "\n" + main + reading + "</main>\n</body>\n</html>\n";
}

std::string csv_table(const std::vector<NamedResult>& results) {
    std::string table = "file,suite,target,case,metric,unit,run,value\r\n";
    for (const auto& result : results)
        for (const auto& figure : result.file.figures) {
            std::string start;
            for (const std::string& field :
                 {result.name, result.file.suite, figure.target, figure.test, figure.metric, figure.unit})
                start += csv_field(field) + ",";
            for (std::size_t i = 0; i < figure.values.size(); ++i) {
                char value[40];
                std::snprintf(value, sizeof value, "%.17g", figure.values[i]);
                table += start + std::to_string(i + 1) + "," + value + "\r\n";
            }
        }
    return table;
}

}  // namespace tierfs::iobench
