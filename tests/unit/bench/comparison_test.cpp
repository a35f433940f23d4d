#include "bench/iobench/report/comparison.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "bench/iobench/report/sections.hpp"

namespace tierfs::iobench {
namespace comparison_test {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

const std::vector<double> kAround100 = {98, 99, 100, 101, 102};
const std::vector<double> kAround50 = {49, 49.5, 50, 50.5, 51};

ResultFigure figure(const std::string& target, const std::string& test, const std::string& metric,
                    Better better, std::vector<double> values) {
    ResultFigure made{.target = target,
                      .test = test,
                      .metric = metric,
                      .unit = "",
                      .better = better,
                      .values = std::move(values),
                      .summary = {},
                      .share_of_peak = {}};
    made.summary = summarize(made.values);
    return made;
}

Row row_of(Better better, std::vector<double> a, std::vector<double> b, bool paired = false) {
    return compare_figures(figure("a", "case", "metric", better, std::move(a)),
                           figure("b", "case", "metric", better, std::move(b)), paired);
}

NamedResult result(const std::string& name, const std::vector<std::string>& targets) {
    NamedResult made{name, {}};
    made.file.suite = "smallfiles";
    made.file.complete = true;
    made.file.parameters = {{"processes", 4}, {"runs", 5}};
    made.file.host = {{"kernel", "Linux 6.1"}, {"cpus", 2}, {"load_average_1m", 0.1}};
    for (const auto& target : targets) {
        made.file.targets.push_back({});
        made.file.targets.back().name = target;
        made.file.figures.push_back(figure(target, "shuffled", "files_per_s", Better::higher, kAround100));
    }
    return made;
}

TEST(Verdict, SaysFasterOfMoreWhereMoreIsBetter) {
    EXPECT_EQ(row_of(Better::higher, kAround100, kAround50).verdict, Verdict::faster);
    EXPECT_EQ(row_of(Better::higher, kAround50, kAround100).verdict, Verdict::slower);
}

TEST(Verdict, SaysFasterOfLessWhereLessIsBetter) {
    EXPECT_EQ(row_of(Better::lower, kAround100, kAround50).verdict, Verdict::slower);
    EXPECT_EQ(row_of(Better::lower, kAround50, kAround100).verdict, Verdict::faster);
}

TEST(Verdict, SaysNoDifferenceWhereTheIntervalIncludesOne) {
    const Row row = row_of(Better::higher, {90, 95, 100, 105, 110}, {91, 94, 101, 104, 109});
    EXPECT_EQ(row.verdict, Verdict::no_difference);
    EXPECT_LT(row.ratio->interval[0], 1);
    EXPECT_GT(row.ratio->interval[1], 1);
    EXPECT_EQ(row_of(Better::lower, kAround100, kAround100).verdict, Verdict::no_difference);
}

TEST(Verdict, IsNoneWhereNeitherIsBetter) {
    EXPECT_EQ(row_of(Better::neither, kAround100, kAround50).verdict, Verdict::none);
    EXPECT_EQ(to_string(Verdict::none), "-");
}

TEST(Verdict, NeedsFiveRuns) {
    EXPECT_EQ(row_of(Better::higher, {100}, kAround50).verdict, Verdict::too_few);
    EXPECT_EQ(row_of(Better::higher, {100, 101, 99, 100}, {50, 51, 49, 50}, true).verdict, Verdict::too_few);
    EXPECT_EQ(row_of(Better::higher, {100, 101, 99, 100, 98}, {50, 51, 49, 50, 48}).verdict, Verdict::faster);
}

TEST(Verdict, HasNoRatioWhereSomeRunsOfTheBaseAreZero) {
    const Row row = row_of(Better::lower, {2, 2, 2, 2, 2}, {0, 0, 1, 1, 1});
    EXPECT_FALSE(row.ratio);
    EXPECT_EQ(row.verdict, Verdict::slower);
}

TEST(Verdict, OfZerosNeedsNoRatio) {
    const Row fewer = row_of(Better::lower, {0, 0, 0, 0, 0}, {7, 8, 9, 7, 8});
    EXPECT_EQ(fewer.verdict, Verdict::faster);
    const Row more = row_of(Better::lower, {7, 8, 9, 7, 8}, {0, 0, 0, 0, 0}, true);
    EXPECT_EQ(more.verdict, Verdict::slower);
    EXPECT_FALSE(more.ratio);
    EXPECT_TRUE(std::isinf(more.percent_slower()));
    const Row none = row_of(Better::lower, {0, 0, 0, 0, 0}, {0, 0, 0, 0, 0});
    EXPECT_EQ(none.verdict, Verdict::no_difference);
    EXPECT_EQ(none.percent_slower(), 0);
}

TEST(Verdict, OfPairsTakesOutWhatSlowedWholeRounds) {
    // Rounds differ by a factor of four, the sides by a tenth in each round.
    const std::vector<double> b = {100, 200, 300, 400, 150}, a = {110, 220, 330, 440, 165};
    EXPECT_EQ(row_of(Better::higher, a, b, true).verdict, Verdict::faster);
    EXPECT_EQ(row_of(Better::higher, a, b, false).verdict, Verdict::no_difference);
}

TEST(Verdict, PercentSlowerGoesTheWayThatIsWorse) {
    EXPECT_NEAR(row_of(Better::higher, kAround50, kAround100).percent_slower(), 50, 1e-9);
    EXPECT_NEAR(row_of(Better::lower, kAround100, kAround50).percent_slower(), 100, 1e-9);
    EXPECT_LT(row_of(Better::lower, kAround50, kAround100).percent_slower(), 0);
}

TEST(Compare, MatchesByCaseAndMetric) {
    auto a = result("a.json", {"one"}), b = result("b.json", {"other"});
    a.file.figures.push_back(figure("one", "in-order", "files_per_s", Better::higher, kAround100));
    a.file.figures.push_back(figure("one", "shuffled", "p99_us", Better::lower, kAround50));
    b.file.figures.push_back(figure("other", "shuffled", "p99_us", Better::lower, kAround100));
    b.file.figures.push_back(figure("other", "tar", "p99_us", Better::lower, kAround100));
    const auto comparison = compare({&a, "one"}, {&b, "other"});
    EXPECT_FALSE(comparison.paired);
    ASSERT_THAT(comparison.rows, SizeIs(2));
    EXPECT_EQ(comparison.rows[1].metric, "p99_us");
    EXPECT_EQ(comparison.rows[1].verdict, Verdict::faster);
    EXPECT_THAT(comparison.only_a, ElementsAre("in-order files_per_s"));
    EXPECT_THAT(comparison.only_b, ElementsAre("tar p99_us"));
}

TEST(Compare, PairsTheTargetsOfOneFile) {
    const auto both = result("both.json", {"one", "other"});
    EXPECT_TRUE(compare({&both, "one"}, {&both, "other"}).paired);
}

TEST(Compare, GivesJson) {
    const auto both = result("both.json", {"one", "other"});
    const auto json = to_json({compare({&both, "one"}, {&both, "other"})}, {"a warning"});
    const auto& row = json["comparisons"][0]["figures"][0];
    EXPECT_EQ(row["verdict"], "no difference");
    EXPECT_EQ(row["ratio"], 1);
    EXPECT_EQ(row["ci95"].size(), 2U);
    EXPECT_EQ(json["warnings"][0], "a warning");
}

TEST(Doubts, AreNoneOfAWholeQuietMeasurement) {
    EXPECT_THAT(doubts(result("a.json", {"one"})), IsEmpty());
}

TEST(Doubts, NameWhatMakesFiguresDoubtful) {
    auto doubtful = result("a.json", {"one"});
    doubtful.file.complete = false;
    doubtful.file.figures.push_back(figure("one", "tar", "files_per_s", Better::higher, {1, 2, 3, 4}));
    doubtful.file.disturbances.push_back(
        {.target = "one", .test = "tar", .what = "somebody dropped the page cache", .run = 1});
    doubtful.file.warnings = {"the clock went backwards"};
    EXPECT_THAT(
        doubts(doubtful),
        ElementsAre(HasSubstr("interrupted"), HasSubstr("1 figure from fewer than 5"),
                    HasSubstr("somebody dropped the page cache"), "a.json: the clock went backwards"));
}

TEST(Differences, AreNoneOfTheLoad) {
    auto a = result("a.json", {"one"}), b = result("b.json", {"one"});
    b.file.host["load_average_1m"] = 3.5;
    EXPECT_THAT(differences(a, b), IsEmpty());
}

TEST(Differences, NameHostsParametersAndSuites) {
    auto a = result("a.json", {"one"}), b = result("b.json", {"one"});
    b.file.suite = "epoch";
    b.file.preset = "unet3d";
    b.file.host["cpus"] = 64;
    b.file.parameters["processes"] = 8;
    b.file.parameters["files"] = 100;
    b.file.dataset_rule = "dataset is 2 x the memory";
    EXPECT_THAT(differences(a, b),
                ElementsAre(HasSubstr("suites: smallfiles, epoch"), HasSubstr("presets: none, unet3d"),
                            HasSubstr("hosts: cpus (2, 64)"),
                            HasSubstr("parameters: processes (4, 8), files (not given, 100)"),
                            HasSubstr("dataset is 2 x the memory")));
}

TEST(Sections, PutOtherTargetsOfTheSameMeasurementBesideEachOther) {
    const std::vector<NamedResult> results = {result("a.json", {"one", "two"}), result("b.json", {"three"})};
    const auto sections = sections_of(results);
    ASSERT_THAT(sections, SizeIs(1));
    EXPECT_EQ(sections[0].title(), "smallfiles");
    ASSERT_THAT(sections[0].columns(), SizeIs(3));
    EXPECT_EQ(sections[0].columns()[2].label, "three");
    EXPECT_TRUE(sections[0].against_first(2, "shuffled", "files_per_s"));
    EXPECT_FALSE(sections[0].against_first(2, "shuffled", "no_metric"));
}

TEST(Sections, KeepTheSameTargetsAndOtherParametersApart) {
    std::vector<NamedResult> results = {result("cold.json", {"one"}), result("warm.json", {"one"}),
                                        result("more.json", {"two"})};
    results[2].file.parameters["processes"] = 16;
    const auto sections = sections_of(results);
    ASSERT_THAT(sections, SizeIs(3));
    EXPECT_EQ(sections[0].title(), "smallfiles: cold");
    EXPECT_EQ(sections[1].title(), "smallfiles: warm");
}

TEST(Sections, PutTheMetricThatSaysMostFirst) {
    auto one = result("a.json", {"one"});
    one.file.figures.insert(one.file.figures.begin(),
                            {figure("one", "shuffled", "p99_us", Better::lower, kAround50),
                             figure("one", "shuffled", "seconds", Better::lower, kAround50),
                             figure("one", "shuffled", "files", Better::neither, kAround50)});
    const std::vector<NamedResult> results = {one};
    const auto main = sections_of(results)[0].main_metrics();
    ASSERT_THAT(main, SizeIs(2));
    EXPECT_EQ(main[0].name, "files_per_s");
    EXPECT_EQ(main[1].name, "p99_us");
}

TEST(Sections, HaveAMetricForEachCase) {
    auto one = result("a.json", {"one"});
    one.file.figures.push_back(figure("one", "thaw", "fish_s", Better::lower, kAround50));
    one.file.figures.push_back(figure("one", "thaw", "cpu_s", Better::lower, kAround50));
    one.file.figures.push_back(figure("one", "thaw", "requests", Better::lower, kAround50));
    const std::vector<NamedResult> results = {one};
    std::vector<std::string> names;
    for (const auto& metric : sections_of(results)[0].main_metrics()) names.push_back(metric.name);
    EXPECT_THAT(names, ElementsAre("files_per_s", "requests", "fish_s"));
}

}  // namespace comparison_test
}  // namespace tierfs::iobench
