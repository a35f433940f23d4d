// Two targets beside each other: ratios, their intervals, and what they say.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/run/result_file.hpp"

namespace tierfs::iobench {

/// Fewer runs give intervals that are too narrow, and no verdict: of two equal sides 4 runs in turns would
/// say "faster" or "slower" one time in eight.
constexpr std::size_t kEnoughRuns = 5;

/// A file that was read, and the name to speak of it by.
struct NamedResult {
    std::string name;  ///< the path as it was given
    ResultFile file;
};

/// One side of a comparison. Does not own the file.
struct Side {
    const NamedResult* result = nullptr;
    std::string target;
};

/// Of the first side against the second.
enum class Verdict {
    faster,         ///< the interval of the ratio excludes 1, on the side that is better
    slower,         ///< on the other side
    no_difference,  ///< the interval includes 1
    too_few,        ///< fewer than kEnoughRuns (paired: rounds)
    none,           ///< of this metric neither more nor less is better
};

/// "faster", "slower", "no difference", "too few runs", "-".
std::string to_string(Verdict verdict);

/// One metric of one case of both sides.
struct Row {
    std::string test, metric, unit;
    Better better = Better::neither;
    double a = 0, b = 0;         ///< medians
    std::size_t runs = 0;        ///< of the side that has fewer
    std::optional<Ratio> ratio;  ///< a/b; none when a value of `b` is not over 0
    Verdict verdict = Verdict::none;

    /// By how many percent `a` is worse than `b`: of a rate 100 (1 - a/b), of a time 100 (a/b - 1). Less than
    /// 0 when it is better; infinite when there is no ratio and it is worse.
    [[nodiscard]] double percent_slower() const;
};

struct Comparison {
    Side a, b;
    bool paired = false;  ///< both from one file, value i of each taken in round i
    std::vector<Row> rows;
    std::vector<std::string> only_a, only_b;  ///< "case metric" that the other side lacks
};

/// Figures are matched by case and metric; rows stand in the order of `a`.
Comparison compare(const Side& a, const Side& b);

/// A row of one figure each.
Row compare_figures(const ResultFigure& a, const ResultFigure& b, bool paired);

/// What makes the file's own figures doubtful: it is not complete, few runs, disturbances, its warnings.
std::vector<std::string> doubts(const NamedResult& result);

/// What makes two files hard to compare: other suites, hosts, parameters, ways to make sure that the device
/// is read.
std::vector<std::string> differences(const NamedResult& a, const NamedResult& b);

/// For `compare --json`; man/iobench.1 documents it.
nlohmann::ordered_json to_json(const std::vector<Comparison>& comparisons,
                               const std::vector<std::string>& warnings);

}  // namespace tierfs::iobench
