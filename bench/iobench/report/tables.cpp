#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "bench/iobench/report/markup.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostHeadlineCases = 6;  // of a section; of more, one line sums up

std::string cell(const std::string& content) {
    return element("td class='number'", content);
}

std::string interval(const Interval& ends) {
    return " " + element("span class='interval'", "[" + number(ends[0]) + ", " + number(ends[1]) + "]");
}

std::string class_of(Verdict verdict) {
    if (verdict == Verdict::faster) return "verdict faster";
    return verdict == Verdict::slower ? "verdict slower" : "verdict";
}

std::string verdict_line(const std::string& words, Verdict verdict) {
    return element("span class='" + class_of(verdict) + "'", words);
}

/// "0.87 [0.81, 0.93]" and the verdict below; nothing where a side has no figure.
std::string ratio_of(const std::optional<Row>& row) {
    if (!row) return "";
    std::string text;
    if (row->ratio) {
        const auto [low, high] = row->ratio->interval;
        const std::string shown = ratio_text(row->ratio->value, low, high);
        const std::size_t blank = shown.find(' ');
        text = shown.substr(0, blank);
        if (row->runs >= 2) text += " " + element("span class='interval'", shown.substr(blank + 1));
    }
    return text + verdict_line(row->verdict == Verdict::none ? "" : to_string(row->verdict), row->verdict);
}

std::string median_of(const ResultFigure* figure) {
    if (figure == nullptr) return "";
    return number(figure->summary.median) + (figure->values.size() < 2 ? "" : interval(figure->summary.ci95));
}

std::string outliers_of(const ResultFigure& figure) {
    std::string text;
    for (const std::size_t i : figure.summary.outliers)
        text += (text.empty() ? "outlier: " : ", ") + number(figure.values.at(i)) + " in run " +
                std::to_string(i + 1);
    return text;
}

/// A figure in full: median, interval, share of the device's peak, outliers, and the ratio to the first
/// column.
std::string figure_of(const Section& section, std::size_t column, const std::string& test,
                      const std::string& metric) {
    const ResultFigure* figure = section.figure(column, test, metric);
    if (figure == nullptr) return "";
    std::string text = median_of(figure);
    if (figure->share_of_peak)
        text +=
            element("span class='verdict'", number(100 * *figure->share_of_peak) + " % of the device's peak");
    if (const auto outliers = outliers_of(*figure); !outliers.empty())
        text += element("span class='verdict'", outliers);
    return text;
}

std::string column_heads(const Section& section, bool with_ratios) {
    std::string heads;
    const auto& columns = section.columns();
    for (std::size_t i = 0; i < columns.size(); ++i) {
        if (with_ratios || i == 0) heads += element("th scope='col' class='number'", html(columns[i].label));
        if (i > 0)
            heads += element("th scope='col' class='number'",
                             html(columns[0].label) + " / " + html(columns[i].label));
    }
    return heads;
}

/// Many cases in one cell: the geometric mean of their ratios, the least, the most, and how many are faster
/// and slower.
std::string summed_up(const Section& section, std::size_t column, const SectionMetric& metric) {
    double logarithms = 0, least = 0, most = 0;
    std::size_t ratios = 0, faster = 0, slower = 0, compared = 0;
    for (const auto& test : section.cases()) {
        const auto row = section.against_first(column, test, metric.name);
        if (!row) continue;
        ++compared;
        faster += row->verdict == Verdict::faster ? 1 : 0;
        slower += row->verdict == Verdict::slower ? 1 : 0;
        if (!row->ratio || !(row->ratio->value > 0)) continue;
        const double ratio = row->ratio->value;
        least = ratios == 0 ? ratio : std::min(least, ratio);
        most = ratios == 0 ? ratio : std::max(most, ratio);
        logarithms += std::log(ratio);
        ++ratios;
    }
    if (compared == 0) return "";
    std::string text;
    if (ratios > 0)
        text = number(std::exp(logarithms / static_cast<double>(ratios))) + " " +
               element("span class='interval'", "from " + number(least) + " to " + number(most));
    const std::string of = " of " + std::to_string(compared);
    return text + verdict_line(std::to_string(faster) + of + " faster", Verdict::none) +
           verdict_line(std::to_string(slower) + of + " slower", Verdict::none);
}

std::vector<std::string> cases_with(const Section& section, const std::string& metric) {
    std::vector<std::string> tests;
    for (const auto& test : section.cases())
        if (section.figure(0, test, metric) != nullptr) tests.push_back(test);
    return tests;
}

std::string headline_row(const Section& section, const std::string& what, const std::string& first,
                         const std::function<std::string(std::size_t)>& other) {
    std::string cells = element("th scope='row'", html(section.title())) + element("td", what) + cell(first);
    for (std::size_t column = 1; column < section.columns().size(); ++column) cells += cell(other(column));
    return element("tr", cells) + "\n";
}

std::string headline_rows(const Section& section) {
    std::string rows;
    for (const auto& metric : section.main_metrics(1)) {
        const auto tests = cases_with(section, metric.name);
        const std::string unit = html(metric.unit);
        if (tests.size() > kMostHeadlineCases) {
            rows += headline_row(section, html(metric.name) + ", " + std::to_string(tests.size()) + " cases",
                                 "", [&](std::size_t column) { return summed_up(section, column, metric); });
            continue;
        }
        for (const auto& test : tests)
            rows += headline_row(
                section, html(test) + ", " + html(metric.name),
                median_of(section.figure(0, test, metric.name)) + element("span class='verdict'", unit),
                [&](std::size_t column) {
                    return ratio_of(section.against_first(column, test, metric.name));
                });
    }
    return rows;
}

std::vector<std::string> labels_of(const Section& section) {
    std::vector<std::string> labels;
    for (const auto& column : section.columns()) labels.push_back(column.label);
    return labels;
}

/// One table: for sections that have the same columns.
std::string headline_table(const std::vector<const Section*>& sections) {
    const Section& first = *sections.front();
    const std::string name = html(first.columns().front().label);
    std::string rows;
    for (const auto* section : sections) rows += headline_rows(*section);
    const std::string caption = first.columns().size() == 1
                                    ? "Medians with their 95 % intervals."
                                    : "Ratios of medians with their 95 % intervals: what " + name +
                                          " gave, divided by what each other "
                                          "gave. The verdict is about " +
                                          name +
                                          ". Of many cases: the geometric mean of the ratios, the "
                                          "least and the most.";
    return element("div class='scroll'",
                   element("table class='figures'",
                           element("caption", caption) +
                               element("thead", element("tr", element("th scope='col'", "suite") +
                                                                  element("th scope='col'", "case, metric") +
                                                                  column_heads(first, false))) +
                               element("tbody", rows)));
}

std::string metric_table(const Section& section, const SectionMetric& metric) {
    std::string rows;
    for (const auto& test : section.cases()) {
        std::string cells;
        bool any = false;
        for (std::size_t column = 0; column < section.columns().size(); ++column) {
            any = any || section.figure(column, test, metric.name) != nullptr;
            cells += cell(figure_of(section, column, test, metric.name));
            if (column > 0) cells += cell(ratio_of(section.against_first(column, test, metric.name)));
        }
        if (any) rows += element("tr", element("th scope='row'", html(test)) + cells) + "\n";
    }
    const std::string better = metric.better == Better::higher  ? ", more is better"
                               : metric.better == Better::lower ? ", less is better"
                                                                : "";
    const std::string unit = metric.unit == metric.name ? "" : " in " + html(metric.unit);
    return element("div class='scroll'",
                   element("table class='figures'",
                           element("caption", element("b", html(metric.name)) + unit + better) +
                               element("thead", element("tr", element("th scope='col'", "case") +
                                                                  column_heads(section, true))) +
                               element("tbody", rows)));
}

}  // namespace

std::string element(std::string_view opening, std::string_view content) {
    const std::string_view name = opening.substr(0, opening.find(' '));
    std::string text = "<";
    text.append(opening).append(">").append(content).append("</").append(name).append(">");
    return text;
}

std::string list_of(const std::vector<std::string>& texts) {
    std::string items;
    for (const auto& text : texts) items += element("li", html(text));
    return element("ul", items);
}

std::string headline_tables(const std::vector<Section>& sections) {
    std::map<std::vector<std::string>, std::vector<const Section*>> alike;
    std::vector<std::vector<std::string>> order;
    for (const auto& section : sections) {
        if (section.columns().empty()) continue;
        auto& group = alike[labels_of(section)];
        if (group.empty()) order.push_back(labels_of(section));
        group.push_back(&section);
    }
    std::string tables;
    for (const auto& labels : order) tables += headline_table(alike[labels]) + "\n";
    return tables;
}

std::string figure_tables(const Section& section) {
    std::string tables;
    for (const auto& metric : section.metrics()) tables += metric_table(section, metric) + "\n";
    return tables;
}

}  // namespace tierfs::iobench
