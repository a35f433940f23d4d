#include "bench/iobench/run/table.hpp"

#include <algorithm>
#include <tuple>
#include <vector>

#include "bench/iobench/report/comparison.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

/// More of one kind would hide the figures; the file has them all.
constexpr std::size_t kMostDisturbances = 10;

using Cells = std::vector<std::string>;

std::string interval_text(const Interval& interval) {
    return "[" + number(interval[0]) + ", " + number(interval[1]) + "]";
}

std::string line_of(const ResultTarget& target) {
    std::string text =
        printable(target.name + ": " + target.path + ", " + target.fs_type + " of " + target.fs_source);
    if (const auto& device = target.device; device && !device->name.empty())
        text += printable(", device " + device->name);
    if (target.device && target.device->peak_mb_per_s)
        text += ", which gives " + number(*target.device->peak_mb_per_s) + " MB/s at most";
    if (const auto& daemon = target.daemon) {
        text += printable("; its daemon " + daemon->command) + ": " +
                number(static_cast<double>(daemon->peak_rss_bytes) / 1e6) + " MB of memory at most, " +
                number(daemon->cpu_s) + " CPU seconds";
        if (daemon->cpu_s_per_gib) text += ", " + number(*daemon->cpu_s_per_gib) + " for a GiB";
    }
    return text + "\n";
}

/// "run 4: 12.5".
std::string outliers_text(const ResultFigure& figure) {
    std::string text;
    for (const std::size_t i : figure.summary.outliers)
        text += (text.empty() ? "" : ", ") + std::string("run ") + std::to_string(i + 1) + ": " +
                number(figure.values[i]);
    return text;
}

/// Which columns there are.
struct Shape {
    bool peak, ratio, outliers;
};

Cells row_of(const ResultFigure& figure, const ResultFigure* base, const Shape& shape) {
    Cells cells = {
        printable(figure.test),        printable(figure.metric),           printable(figure.target),
        number(figure.summary.median), interval_text(figure.summary.ci95), number(figure.summary.p95)};
    if (shape.peak) cells.push_back(figure.share_of_peak ? number(100 * *figure.share_of_peak) + " %" : "");
    if (shape.ratio) {
        const bool compared = base != nullptr && base != &figure;
        const Row row = compared ? compare_figures(figure, *base, true) : Row{};
        cells.push_back(row.ratio
                            ? ratio_number(row.ratio->value) + " [" + ratio_number(row.ratio->interval[0]) +
                                  ", " + ratio_number(row.ratio->interval[1]) + "]"
                            : "");
        cells.push_back(compared ? to_string(row.verdict) : "");
    }
    if (shape.outliers) cells.push_back(outliers_text(figure));
    return cells;
}

/// Case by case, metric by metric, and the targets of each together.
std::vector<const ResultFigure*> in_order(const ResultFile& result) {
    std::vector<const ResultFigure*> left, ordered;
    for (const auto& figure : result.figures) left.push_back(&figure);
    while (!left.empty()) {
        const ResultFigure& first = *left.front();
        const auto rest = std::stable_partition(left.begin(), left.end(), [&](const ResultFigure* figure) {
            return figure->test == first.test && figure->metric == first.metric;
        });
        ordered.insert(ordered.end(), left.begin(), rest);
        left.erase(left.begin(), rest);
    }
    return ordered;
}

std::string figures_of(const ResultFile& result) {
    const auto any = [&](auto&& has) {
        return std::any_of(result.figures.begin(), result.figures.end(), has);
    };
    const Shape shape = {
        .peak = any([](const ResultFigure& figure) { return figure.share_of_peak.has_value(); }),
        .ratio = result.targets.size() > 1,
        .outliers = any([](const ResultFigure& figure) { return !figure.summary.outliers.empty(); })};
    Cells header = {"case", "metric", "target", "median", "95 %", "p95"};
    std::vector<bool> right = {false, false, false, true, true, true};
    const auto add_column = [&](bool shown, const std::string& name, bool flush) {
        if (!shown) return;
        header.push_back(name);
        right.push_back(flush);
    };
    add_column(shape.peak, "of peak", true);
    add_column(shape.ratio,
               "to " + (result.targets.empty() ? "" : printable(result.targets[0].name)) + " [95 %]", true);
    add_column(shape.ratio, "is", false);
    add_column(shape.outliers, "outliers", false);
    std::vector<Cells> rows = {header};
    const ResultFigure* base = nullptr;
    for (const ResultFigure* figure : in_order(result)) {
        if (base == nullptr || base->test != figure->test || base->metric != figure->metric)
            base = figure->target == result.targets.front().name ? figure : nullptr;
        rows.push_back(row_of(*figure, base, shape));
    }
    return columns(rows, right);
}

std::string disturbances_of(const ResultFile& result) {
    std::string text;
    const auto& all = result.disturbances;
    for (std::size_t i = 0; i < std::min(all.size(), kMostDisturbances); ++i)
        text += printable("disturbed: " + all[i].test + ", " + all[i].target + ", run " +
                          std::to_string(all[i].run) + ": " + all[i].what) +
                "\n";
    if (all.size() > kMostDisturbances)
        text += "disturbed: " + std::to_string(all.size() - kMostDisturbances) + " times more\n";
    return text;
}

}  // namespace

std::string table_of(const ResultFile& result) {
    std::string text;
    for (const auto& target : result.targets) text += line_of(target);
    text += printable(result.dataset_rule) + "\n\n";
    if (!result.figures.empty()) text += figures_of(result) + "\n";
    text += disturbances_of(result);
    for (const auto& warning : result.warnings) text += printable("warning: " + warning) + "\n";
    return text;
}

}  // namespace tierfs::iobench
