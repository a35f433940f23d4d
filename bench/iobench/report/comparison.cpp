#include "bench/iobench/report/comparison.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

namespace tierfs::iobench {

namespace {

using Json = nlohmann::ordered_json;
using Key = std::pair<std::string, std::string>;  // case, metric

Key key_of(const ResultFigure& figure) {
    return {figure.test, figure.metric};
}

std::map<Key, const ResultFigure*> figures_of(const Side& side) {
    std::map<Key, const ResultFigure*> figures;
    for (const auto& figure : side.result->file.figures)
        if (figure.target == side.target) figures.emplace(key_of(figure), &figure);
    return figures;
}

Verdict better_or_worse(Better better, bool more) {
    return (better == Better::higher) == more ? Verdict::faster : Verdict::slower;
}

/// Where there is no ratio: all of one side is 0 (requests that never were, for example).
Verdict verdict_of_zeros(const ResultFigure& a, const ResultFigure& b) {
    if (a.summary.min > b.summary.max) return better_or_worse(a.better, true);
    if (a.summary.max < b.summary.min) return better_or_worse(a.better, false);
    return Verdict::no_difference;
}

Verdict verdict_of(const ResultFigure& a, const ResultFigure& b, const Row& row) {
    if (row.better == Better::neither) return Verdict::none;
    if (row.runs < kEnoughRuns) return Verdict::too_few;
    if (!row.ratio) return verdict_of_zeros(a, b);
    const auto [low, high] = row.ratio->interval;
    if (low > 1) return better_or_worse(row.better, true);
    if (high < 1) return better_or_worse(row.better, false);
    return Verdict::no_difference;
}

std::string shown(const Json& object, const std::string& key) {
    const auto found = object.find(key);
    return found == object.end() ? "not given" : found->dump(-1, ' ', false, Json::error_handler_t::replace);
}

/// "processes (4, 8), files (0, 100)" of the keys whose values differ; empty when none does.
std::string differing(const Json& a, const Json& b, const std::vector<std::string>& keys) {
    std::string text;
    for (const auto& key : keys) {
        const std::string one = shown(a, key), other = shown(b, key);
        if (one != other) text += (text.empty() ? "" : ", ") + key + " (" + one + ", " + other + ")";
    }
    return text;
}

std::vector<std::string> keys_of(const Json& a, const Json& b) {
    std::vector<std::string> keys;
    for (const auto& item : a.items()) keys.push_back(item.key());
    for (const auto& item : b.items())
        if (!a.contains(item.key())) keys.push_back(item.key());
    return keys;
}

std::string counted(std::size_t count, const std::string& what) {
    return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

const char* word_of(Better better) {
    return better == Better::higher ? "higher" : better == Better::lower ? "lower" : "neither";
}

Json json_of(const Side& side) {
    return {{"file", side.result->name}, {"target", side.target}, {"tierfs", side.result->file.tierfs}};
}

Json json_of(const Row& row) {
    Json json = {{"case", row.test},
                 {"metric", row.metric},
                 {"unit", row.unit},
                 {"better", word_of(row.better)},
                 {"a", row.a},
                 {"b", row.b},
                 {"runs", row.runs},
                 {"ratio", nullptr},
                 {"ci95", nullptr},
                 {"verdict", row.verdict == Verdict::none ? Json(nullptr) : Json(to_string(row.verdict))}};
    if (!row.ratio) return json;
    json["ratio"] = row.ratio->value;
    if (row.runs >= 2) json["ci95"] = row.ratio->interval;
    return json;
}

}  // namespace

std::string to_string(Verdict verdict) {
    switch (verdict) {
        case Verdict::faster:
            return "faster";
        case Verdict::slower:
            return "slower";
        case Verdict::no_difference:
            return "no difference";
        case Verdict::too_few:
            return "too few runs";
        case Verdict::none:
            break;
    }
    return "-";
}

double Row::percent_slower() const {
    if (!ratio) return verdict == Verdict::slower ? std::numeric_limits<double>::infinity() : 0;
    return 100 * (better == Better::higher ? 1 - ratio->value : ratio->value - 1);
}

Row compare_figures(const ResultFigure& a, const ResultFigure& b, bool paired) {
    Row row{.test = a.test,
            .metric = a.metric,
            .unit = a.unit,
            .better = a.better,
            .a = a.summary.median,
            .b = b.summary.median,
            .runs = std::min(a.values.size(), b.values.size()),
            .ratio = {},
            .verdict = Verdict::none};
    const auto positive = [](double value) { return value > 0; };
    // A sample without a ratio would be left out of the bootstrap, and the interval be too narrow.
    const bool usable = std::all_of(b.values.begin(), b.values.end(), positive);
    if (usable) row.ratio = paired ? paired_ratio(a.values, b.values) : ratio(a.values, b.values);
    row.verdict = verdict_of(a, b, row);
    return row;
}

Comparison compare(const Side& a, const Side& b) {
    Comparison comparison{
        .a = a, .b = b, .paired = a.result == b.result, .rows = {}, .only_a = {}, .only_b = {}};
    auto others = figures_of(b);
    for (const auto& figure : a.result->file.figures) {
        if (figure.target != a.target) continue;
        const auto other = others.find(key_of(figure));
        if (other == others.end()) {
            comparison.only_a.push_back(figure.test + " " + figure.metric);
            continue;
        }
        comparison.rows.push_back(compare_figures(figure, *other->second, comparison.paired));
        others.erase(other);
    }
    for (const auto& [key, figure] : others) comparison.only_b.push_back(key.first + " " + key.second);
    return comparison;
}

std::vector<std::string> doubts(const NamedResult& result) {
    const ResultFile& file = result.file;
    std::vector<std::string> found;
    const auto few =
        static_cast<std::size_t>(std::count_if(file.figures.begin(), file.figures.end(),
                                               [](const auto& f) { return f.values.size() < kEnoughRuns; }));
    if (!file.complete) found.push_back("was interrupted: some cases have fewer runs, or are missing");
    if (few > 0)
        found.push_back(counted(few, "figure") + " from fewer than " + std::to_string(kEnoughRuns) +
                        " runs: their intervals are too narrow");
    if (!file.disturbances.empty())
        found.push_back(counted(file.disturbances.size(), "disturbance") +
                        " recorded while it was measured, the first: " + file.disturbances.front().what);
    found.insert(found.end(), file.warnings.begin(), file.warnings.end());
    for (auto& text : found) text = result.name + ": " + text;
    return found;
}

std::vector<std::string> differences(const NamedResult& a, const NamedResult& b) {
    // What else a host says (its load, for example) is never twice the same.
    const std::vector<std::string> hardware = {"kernel", "machine", "cpu", "cpus", "memory_bytes"};
    const ResultFile &one = a.file, &other = b.file;
    std::vector<std::string> found;
    const auto tell = [&](const std::string& what, const std::string& how) {
        if (!how.empty()) found.push_back(a.name + " and " + b.name + ": other " + what + ": " + how);
    };
    if (one.suite != other.suite) tell("suites", one.suite + ", " + other.suite);
    if (one.preset != other.preset)
        tell("presets", one.preset.value_or("none") + ", " + other.preset.value_or("none"));
    tell("hosts", differing(one.host, other.host, hardware));
    tell("parameters",
         differing(one.parameters, other.parameters, keys_of(one.parameters, other.parameters)));
    if (one.dataset_rule != other.dataset_rule)
        tell("rules for the dataset", one.dataset_rule + " | " + other.dataset_rule);
    return found;
}

Json to_json(const std::vector<Comparison>& comparisons, const std::vector<std::string>& warnings) {
    Json json = {{"format", "iobench-comparison"},
                 {"version", 1},
                 {"comparisons", Json::array()},
                 {"warnings", warnings}};
    for (const auto& comparison : comparisons) {
        Json rows = Json::array();
        for (const auto& row : comparison.rows) rows.push_back(json_of(row));
        json["comparisons"].push_back({{"a", json_of(comparison.a)},
                                       {"b", json_of(comparison.b)},
                                       {"paired", comparison.paired},
                                       {"figures", std::move(rows)},
                                       {"only_a", comparison.only_a},
                                       {"only_b", comparison.only_b}});
    }
    return json;
}

}  // namespace tierfs::iobench
