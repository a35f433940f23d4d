#include <regex.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>

#include "bench/iobench/command.hpp"
#include "bench/iobench/report/comparison.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {

namespace {

constexpr int kSlowerStatus = 3;

struct CompareRequest {
    std::vector<std::string> files;
    std::string a, b, metric;
    bool json = false;
    std::optional<double> fail_if_slower;  ///< percent
};

/// The C library's and not std::regex, which needs stack for each character of what it searches.
class Pattern {
  public:
    /// Throws CLI::ValidationError.
    explicit Pattern(const std::string& text) {
        const int error = regcomp(&compiled_, text.c_str(), REG_EXTENDED | REG_NOSUB);
        if (error == 0) return;
        char what[200];
        regerror(error, &compiled_, what, sizeof what);
        throw CLI::ValidationError(text, what);
    }
    ~Pattern() { regfree(&compiled_); }
    Pattern(const Pattern&) = delete;
    Pattern& operator=(const Pattern&) = delete;
    [[nodiscard]] bool is_in(const std::string& text) const {
        return regexec(&compiled_, text.c_str(), 0, nullptr, 0) == 0;
    }

  private:
    regex_t compiled_{};
};

bool has_target(const NamedResult& result, const std::string& name) {
    const auto& targets = result.file.targets;
    return std::any_of(targets.begin(), targets.end(),
                       [&](const auto& target) { return target.name == name; });
}

/// The target that the option asks for, else the first.
Result<std::string> chosen_target(const NamedResult& result, const std::string& asked) {
    if (result.file.targets.empty()) return fail(EINVAL, result.name + ": has no targets");
    if (asked.empty()) return result.file.targets.front().name;
    if (has_target(result, asked)) return asked;
    return fail(EINVAL, result.name + ": has no target " + printable(asked));
}

using Comparisons = Result<std::vector<Comparison>>;

Comparisons within(const NamedResult& result, const CompareRequest& request) {
    const auto a = chosen_target(result, request.a);
    if (!a) return fail(a.error());
    if (!request.b.empty() && !has_target(result, request.b))
        return fail(EINVAL, result.name + ": has no target " + printable(request.b));
    std::vector<Comparison> comparisons;
    for (const auto& target : result.file.targets)
        if (target.name != *a && (request.b.empty() || request.b == target.name))
            comparisons.push_back(compare({&result, *a}, {&result, target.name}));
    if (comparisons.empty())
        return fail(EINVAL, result.name + ": has one target; name a second file to compare it with");
    return comparisons;
}

/// Targets of the same name; the first of each where no name is in both, or those that were asked for. `one` is A.
Comparisons between(const NamedResult& one, const NamedResult& other, const CompareRequest& request) {
    std::vector<Comparison> comparisons;
    if (request.a.empty() && request.b.empty())
        for (const auto& target : one.file.targets)
            if (has_target(other, target.name))
                comparisons.push_back(compare({&one, target.name}, {&other, target.name}));
    if (!comparisons.empty()) return comparisons;
    const auto a = chosen_target(one, request.a);
    if (!a) return fail(a.error());
    const auto b = chosen_target(other, request.b);
    if (!b) return fail(b.error());
    comparisons.push_back(compare({&one, *a}, {&other, *b}));
    return comparisons;
}

void keep_metrics(std::vector<Comparison>& comparisons, const std::string& pattern) {
    if (pattern.empty()) return;
    const Pattern wanted(pattern);
    const auto unwanted = [&](const std::string& name) {
        return !wanted.is_in(name.substr(name.rfind(' ') + 1));
    };
    for (auto& comparison : comparisons) {
        std::erase_if(comparison.rows, [&](const Row& row) { return !wanted.is_in(row.metric); });
        std::erase_if(comparison.only_a, unwanted);
        std::erase_if(comparison.only_b, unwanted);
    }
}

std::string label(const Side& side, bool with_file) {
    return printable(side.target + (with_file ? " of " + side.result->name : ""));
}

std::string ratio_of(const Row& row) {
    if (!row.ratio) return "-";
    const auto [low, high] = row.ratio->interval;
    return row.runs < 2 ? ratio_number(row.ratio->value) : ratio_text(row.ratio->value, low, high);
}

void print(const Comparison& comparison) {
    std::printf("A: %s\nB: %s\n%s\n\n", label(comparison.a, !comparison.paired).c_str(),
                label(comparison.b, !comparison.paired).c_str(),
                comparison.paired ? "Paired by round." : "Not paired.");
    std::vector<std::vector<std::string>> table = {
        {"case", "metric", "unit", "A", "B", "A/B [95 %]", "A is"}};
    for (const auto& row : comparison.rows) {
        table.push_back({printable(row.test), printable(row.metric), printable(row.unit), number(row.a),
                         number(row.b), ratio_of(row), to_string(row.verdict)});
    }
    std::fputs(columns(table, {false, false, false, true, true, true, false}).c_str(), stdout);
    for (const auto& [side, names] : {std::pair{"A", &comparison.only_a}, {"B", &comparison.only_b}})
        if (!names->empty())
            std::printf("Only %s has %zu more, the first: %s\n", side, names->size(),
                        printable(names->front()).c_str());
    std::printf("\n");
}

/// Why "not slower" cannot be said; empty when it can.
std::string undecided(const Comparison& comparison) {
    for (const auto* side : {&comparison.a, &comparison.b})
        if (!side->result->file.complete) return side->result->name + " is not complete";
    if (!comparison.only_b.empty()) return "A lacks " + comparison.only_b.front();
    for (const auto& row : comparison.rows)
        if (row.verdict == Verdict::too_few)
            return row.test + " " + row.metric + " has fewer than " + std::to_string(kEnoughRuns) + " runs";
    return "";
}

int status_of(const std::vector<Comparison>& comparisons, double percent) {
    for (const auto& comparison : comparisons) {
        for (const auto& row : comparison.rows)
            if (row.verdict == Verdict::slower && row.percent_slower() > percent) {
                std::fprintf(stderr, "iobench: %s %s: slower by %s %%, more than %s %%\n",
                             printable(row.test).c_str(), printable(row.metric).c_str(),
                             number(row.percent_slower()).c_str(), number(percent).c_str());
                return kSlowerStatus;
            }
        if (const auto why = undecided(comparison); !why.empty())
            return complain("--fail-if-slower cannot tell: " + printable(why));
    }
    return 0;
}

Result<int> compare(const CompareRequest& request) {
    std::vector<NamedResult> results;
    for (const auto& path : request.files) {
        auto file = read_result(path);
        if (!file) return fail(file.error());
        results.push_back({path, std::move(*file)});
    }
    auto comparisons =
        results.size() == 1 ? within(results[0], request) : between(results[1], results[0], request);
    if (!comparisons) return fail(comparisons.error());
    keep_metrics(*comparisons, request.metric);
    if (std::all_of(comparisons->begin(), comparisons->end(), [](const auto& c) { return c.rows.empty(); }))
        return fail(EINVAL, "no case and metric is on both sides");

    std::vector<std::string> warnings;
    if (results.size() == 2) warnings = differences(results[0], results[1]);
    for (const auto& result : results)
        for (auto& doubt : doubts(result)) warnings.push_back(std::move(doubt));
    if (request.json) {
        const auto json = to_json(*comparisons, warnings);
        std::printf("%s\n", json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
    } else {
        for (const auto& comparison : *comparisons) print(comparison);
    }
    for (const auto& warning : warnings)
        std::fprintf(stderr, "iobench: warning: %s\n", printable(warning).c_str());
    return request.fail_if_slower ? status_of(*comparisons, *request.fail_if_slower) : 0;
}

std::string check_regex(const std::string& pattern) {
    const Pattern compiles(pattern);
    return "";
}

constexpr const char* kCompareFooter = R"(
One file: its first target (or --a) is A, each other one (or --b) is B; value i of both was taken in round i, and the
ratios are paired. Two files, the old result and then the new one: the new one is A; targets of the same name are
compared, without one the first of each, and the ratios are not paired. A/B is the ratio of the medians (paired: the median of the rounds' ratios) with its bootstrap 95 %
interval. The verdict is about A: "faster" when the interval excludes 1 on the side that is better (more of a rate, less
of a time or of requests), "slower" on the other side, else "no difference"; "-" where neither is better.

Warnings go to standard error: other hosts, parameters or suites, fewer than 5 runs, disturbances.

Exit status: 0 compared, 1 failed (a file could not be read, nothing to compare; with --fail-if-slower also when it cannot
tell: a file is not complete, A lacks a figure, fewer than 5 runs), 2 wrong usage, 3 slower by more than --fail-if-slower
allows. With 5 runs one figure in 16 seems faster or slower by chance alone: choose metrics, or measure more runs.)";

}  // namespace

void add_compare(CLI::App& app, int& status) {
    auto request = std::make_shared<CompareRequest>();
    auto* compare_app =
        app.add_subcommand("compare", "Ratios of two results, or of the targets of one, with a verdict");
    compare_app
        ->add_option("FILES", request->files,
                     "a file that iobench run --json wrote; or the old one, then the new one")
        ->required()
        ->expected(1, 2);
    compare_app->add_option("--a", request->a, "the target that is A, of the new one of two files")
        ->option_text("TARGET");
    compare_app->add_option("--b", request->b, "the target that is B, of the old one of two files")
        ->option_text("TARGET");
    compare_app
        ->add_option("--metric", request->metric, "only metrics that this (POSIX extended) is found in")
        ->check(CLI::Validator(check_regex, "REGEX"));
    compare_app->add_flag("--json", request->json, "print JSON");
    compare_app
        ->add_option("--fail-if-slower", request->fail_if_slower,
                     "exit with status 3 when a verdict is slower and the ratio worse by more than this")
        ->check(CLI::Range(0.0, 1e6))
        ->option_text("PERCENT");
    compare_app->footer(kCompareFooter);
    compare_app->callback([request, &status] {
        const auto done = compare(*request);
        status = done ? *done : complain(done.error().message);
    });
}

}  // namespace tierfs::iobench
