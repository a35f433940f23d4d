#include <algorithm>

#include "bench/iobench/report/markup.hpp"
#include "bench/iobench/report/plots.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

std::string legend(const Chart& chart) {
    std::string items;
    for (const auto& series : chart.series)
        items += element("li", swatch(series.look, chart.kind) + "<span>" + html(series.label) + "</span>");
    return element("ul class='legend'", items);
}

std::string caption(const Plot& plot) {
    std::string text = plot.title;
    if (!plot.axis.empty()) text += " over " + plot.axis;
    if (plot.panels.front().scale.logarithmic) text += "; logarithmic scale";
    if (plot.left_out > 0)
        text += "; the first " + std::to_string(plot.panels.size()) + " plots, the tables have " +
                std::to_string(plot.left_out) + " more";
    return text;
}

}  // namespace

std::string Plotter::drawing(const Chart& chart, const std::string& id, const std::string& description) {
    if (missing_) return "";
    const auto svg = draw(chart, gnuplot_, id, description);
    if (svg) return *svg;
    missing_ = svg.error().code == ENOENT;
    const std::string why = missing_
                                ? "gnuplot is not installed (Debian's package gnuplot-nox): the page has "
                                  "tables and no plots"
                                : "a plot is missing: " + svg.error().message;
    if (std::find(problems_.begin(), problems_.end(), why) == problems_.end()) problems_.push_back(why);
    return missing_ ? "" : element("p class='muted'", html(why));
}

std::string Plotter::plots(const Section& section, const std::string& id) {
    std::string figures;
    std::size_t count = 0;
    for (const auto& plot : plots_of(section)) {
        const bool lines = plot.panels.front().kind == Chart::Kind::lines;
        std::string panels;
        for (const auto& panel : plot.panels) {
            const std::string title = panel.title.empty() ? "" : element("figcaption", html(panel.title));
            const std::string svg = drawing(panel, id + "-" + std::to_string(count++),
                                            section.title() + ": " + plot.title + " " + panel.title);
            if (missing_) return "";
            panels += title.empty() ? svg : element("figure", title + svg);
        }
        figures += element(lines ? "figure" : "figure class='bars'",
                           element("figcaption", html(caption(plot))) + legend(plot.panels.front()) +
                               element(lines ? "div class='panels'" : "div class='scroll'", panels)) +
                   "\n";
    }
    return figures;
}

}  // namespace tierfs::iobench
