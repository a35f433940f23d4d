#include "bench/iobench/report/sections.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <set>

namespace tierfs::iobench {

namespace {

/// What says most about how fast something is, first: shares of time, rates, then times and requests.
constexpr std::array kTelling = {"au_percent",     "samples_per_s",    "files_per_s", "mb_per_s",
                                 "seq_mb_per_s",   "rand_reads_per_s", "names_per_s", "ops_per_s",
                                 "write_mb_per_s", "read_mb_per_s",    "find_s",      "mount_s",
                                 "stall_s",        "p99_us",           "requests"};

std::size_t rank_of(const SectionMetric& metric) {
    return static_cast<std::size_t>(std::find(kTelling.begin(), kTelling.end(), metric.name) -
                                    kTelling.begin());
}

bool measured_alike(const NamedResult& a, const NamedResult& b) {
    return a.file.suite == b.file.suite && a.file.preset == b.file.preset &&
           a.file.parameters == b.file.parameters && a.file.dataset_rule == b.file.dataset_rule;
}

bool share_a_target(const NamedResult& a, const NamedResult& b) {
    std::set<std::string> names;
    for (const auto& target : a.file.targets) names.insert(target.name);
    return std::any_of(b.file.targets.begin(), b.file.targets.end(),
                       [&](const auto& target) { return names.contains(target.name); });
}

using Group = std::vector<const NamedResult*>;

bool belongs(const NamedResult& result, const Group& group) {
    return std::all_of(group.begin(), group.end(), [&](const NamedResult* other) {
        return measured_alike(result, *other) && !share_a_target(result, *other);
    });
}

std::string title_of(const Group& group, bool alone) {
    const ResultFile& file = group.front()->file;
    std::string title = file.suite;
    if (file.preset) title += ", preset " + *file.preset;
    if (alone) return title;
    title += ":";
    for (const auto* result : group) title += " " + std::filesystem::path(result->name).stem().string();
    return title;
}

}  // namespace

Section::Section(std::string title, std::vector<const NamedResult*> results)
    : title_(std::move(title)), results_(std::move(results)) {
    for (const auto* result : results_)
        for (const auto& target : result->file.targets) {
            columns_.push_back({target.name, {result, target.name}});
            add_figures(columns_.size() - 1);
        }
}

void Section::add_figures(std::size_t column) {
    const Side& side = columns_[column].side;
    for (const auto& figure : side.result->file.figures) {
        if (figure.target != side.target) continue;
        figures_.emplace(std::tuple(column, figure.test, figure.metric), &figure);
        if (std::find(cases_.begin(), cases_.end(), figure.test) == cases_.end())
            cases_.push_back(figure.test);
        const auto same_name = [&](const auto& metric) { return metric.name == figure.metric; };
        if (std::none_of(metrics_.begin(), metrics_.end(), same_name))
            metrics_.push_back({figure.metric, figure.unit, figure.better});
    }
}

const ResultFigure* Section::figure(std::size_t column, const std::string& test,
                                    const std::string& metric) const {
    const auto found = figures_.find(std::tuple(column, test, metric));
    return found == figures_.end() ? nullptr : found->second;
}

std::optional<Row> Section::against_first(std::size_t column, const std::string& test,
                                          const std::string& metric) const {
    const ResultFigure *one = figure(0, test, metric), *other = figure(column, test, metric);
    if (one == nullptr || other == nullptr) return std::nullopt;
    return compare_figures(*one, *other, columns_[0].side.result == columns_[column].side.result);
}

std::vector<SectionMetric> Section::main_metrics() const {
    std::set<std::string> chosen;
    for (const auto& test : cases_) {
        bool told = false;
        std::string first;  // stands for a case that has nothing telling but its requests
        for (const auto& metric : metrics_) {
            if (metric.better == Better::neither || !anywhere(test, metric.name)) continue;
            if (first.empty()) first = metric.name;
            if (rank_of(metric) == kTelling.size()) continue;
            chosen.insert(metric.name);
            told = told || metric.name != "requests";
        }
        if (!told && !first.empty()) chosen.insert(first);
    }
    std::vector<SectionMetric> main;
    for (const auto& metric : metrics_)
        if (chosen.contains(metric.name)) main.push_back(metric);
    std::stable_sort(main.begin(), main.end(),
                     [](const auto& a, const auto& b) { return rank_of(a) < rank_of(b); });
    return main;
}

bool Section::anywhere(const std::string& test, const std::string& metric) const {
    for (std::size_t column = 0; column < columns_.size(); ++column)
        if (figure(column, test, metric) != nullptr) return true;
    return false;
}

std::vector<Section> sections_of(const std::vector<NamedResult>& results) {
    std::vector<Group> groups;
    for (const auto& result : results) {
        const auto group = std::find_if(groups.begin(), groups.end(),
                                        [&](const Group& members) { return belongs(result, members); });
        if (group == groups.end())
            groups.push_back({&result});
        else
            group->push_back(&result);
    }
    std::vector<Section> sections;
    for (const auto& group : groups) {
        const auto same = std::count_if(groups.begin(), groups.end(), [&](const Group& other) {
            return other.front()->file.suite == group.front()->file.suite &&
                   other.front()->file.preset == group.front()->file.preset;
        });
        sections.emplace_back(title_of(group, same == 1), group);
    }
    return sections;
}

}  // namespace tierfs::iobench
