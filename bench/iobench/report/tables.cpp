#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "bench/iobench/report/markup.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostHeadlineCases = 12;  // of a section; of more, one line sums up

std::string cell(const std::string& content) {
    return element("td class='number'", content);
}

std::string interval(const std::string& low, const std::string& high) {
    return " " + element("span class='interval'", "[" + low + ", " + high + "]");
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
        text = ratio_number(row->ratio->value);
        const auto [low, high] = row->ratio->interval;
        if (row->runs >= 2) text += interval(ratio_number(low), ratio_number(high));
    }
    return text + verdict_line(row->verdict == Verdict::none ? "" : to_string(row->verdict), row->verdict);
}

std::string median_of(const ResultFigure* figure) {
    if (figure == nullptr) return "";
    const auto [low, high] = figure->summary.ci95;
    return number(figure->summary.median) +
           (figure->values.size() < 2 ? "" : interval(number(low), number(high)));
}

std::string outliers_of(const ResultFigure& figure) {
    std::string text;
    for (const std::size_t i : figure.summary.outliers)
        text += (text.empty() ? "outlier " : ", ") + number(figure.values.at(i)) + " in run " +
                std::to_string(i + 1);
    return text;
}

/// A figure in full: median, interval, share of the device's peak, outliers, and the first column's ratio to
/// it.
std::string figure_of(const Section& section, std::size_t column, const std::string& test,
                      const std::string& metric) {
    const ResultFigure* figure = section.figure(column, test, metric);
    if (figure == nullptr) return "";
    std::string text = median_of(figure);
    if (figure->share_of_peak)
        text +=
            element("span class='note'", number(100 * *figure->share_of_peak) + " % of the device's peak");
    const auto row = column == 0 ? std::nullopt : section.against_first(column, test, metric);
    if (row && row->ratio && row->verdict != Verdict::none)
        text += element("span class='ratio'", ratio_of(row));
    if (const auto outliers = outliers_of(*figure); !outliers.empty())
        text += element("span class='note'", outliers);
    return text;
}

std::string column_heads(const Section& section, const std::string& before_others) {
    std::string heads;
    for (const auto& column : section.columns())
        heads += element("th scope='col' class='number'",
                         (heads.empty() ? "" : before_others) + html(column.label));
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
        text = ratio_number(std::exp(logarithms / static_cast<double>(ratios))) + " " +
               element("span class='interval'", "from " + ratio_number(least) + " to " + ratio_number(most));
    const std::string of = " of " + std::to_string(compared);
    return text + verdict_line(std::to_string(faster) + of + " faster", Verdict::none) +
           verdict_line(std::to_string(slower) + of + " slower", Verdict::none);
}

bool always_in_headline(const std::string& metric) {
    return metric == "read_mb_per_s" || metric == "requests";
}

/// Cases of whose metrics this one says most.
std::vector<std::string> headline_cases(const Section& section, const std::vector<SectionMetric>& metrics,
                                        std::size_t which) {
    const auto has = [&](const std::string& test, const SectionMetric& metric) {
        return section.figure(0, test, metric.name) != nullptr;
    };
    std::vector<std::string> tests;
    for (const auto& test : section.cases()) {
        const auto first = std::find_if(metrics.begin(), metrics.end(),
                                        [&](const SectionMetric& metric) { return has(test, metric); });
        const bool is_first = first == metrics.begin() + static_cast<std::ptrdiff_t>(which);
        if (is_first || (always_in_headline(metrics[which].name) && has(test, metrics[which])))
            tests.push_back(test);
    }
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
    const auto metrics = section.main_metrics();
    for (std::size_t which = 0; which < metrics.size(); ++which) {
        const SectionMetric& metric = metrics[which];
        const auto tests = headline_cases(section, metrics, which);
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
    return element("div class='scroll' tabindex='0'",
                   element("table class='figures'",
                           element("caption", caption) +
                               element("thead", element("tr", element("th scope='col'", "suite") +
                                                                  element("th scope='col'", "case, metric") +
                                                                  column_heads(first, name + " / "))) +
                               element("tbody", rows)));
}

std::string words_for(const SectionMetric& metric) {
    const std::string better = metric.better == Better::higher  ? ", more is better"
                               : metric.better == Better::lower ? ", less is better"
                                                                : "";
    return (metric.unit == metric.name ? "" : " in " + html(metric.unit)) + better;
}

/// Empty when no column has the figure.
std::string figure_row(const Section& section, const std::string& head, const std::string& test,
                       const std::string& metric) {
    std::string cells;
    bool any = false;
    for (std::size_t column = 0; column < section.columns().size(); ++column) {
        const std::string content = figure_of(section, column, test, metric);
        any = any || !content.empty();
        cells += cell(content);
    }
    return any ? element("tr", element("th scope='row'", head) + cells) + "\n" : "";
}

std::string about_ratios(const Section& section) {
    if (section.columns().size() < 2) return "";
    const std::string first = html(section.columns().front().label);
    return "; below each figure the ratio of " + first + " to it, and what that says of " + first;
}

std::string figure_table(const Section& section, const std::string& caption, const std::string& head,
                         const std::string& rows) {
    return element("div class='scroll' tabindex='0'",
                   element("table class='figures'",
                           element("caption", caption + about_ratios(section)) +
                               element("thead", element("tr", element("th scope='col'", head) +
                                                                  column_heads(section, ""))) +
                               element("tbody", rows))) +
           "\n";
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
    std::string tables, rows;
    const bool one_case = section.cases().size() == 1;
    for (const auto& metric : section.metrics()) {
        const std::string words = words_for(metric), name = html(metric.name);
        if (!one_case) rows.clear();
        for (const auto& test : section.cases())
            rows += figure_row(section, one_case ? name + element("span class='note'", words) : html(test),
                               test, metric.name);
        if (!one_case) tables += figure_table(section, element("b", name) + words, "case", rows);
    }
    return one_case ? figure_table(section, "case " + html(section.cases().front()), "metric", rows) : tables;
}

}  // namespace tierfs::iobench
