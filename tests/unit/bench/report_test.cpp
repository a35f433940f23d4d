#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "bench/iobench/report/gnuplot.hpp"
#include "bench/iobench/report/page.hpp"
#include "bench/iobench/report/plots.hpp"
#include "bench/iobench/report/text.hpp"

namespace tierfs::iobench {
namespace report_test {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

const std::string kHostile =
    "<script>alert(1)</script>\"'&`touch /tmp/owned`'; system('touch /tmp/owned') "
    "#\n\x1b[31m\\{}$%@^~\xff\xc3";

TEST(ReportText, EscapesForHtml) {
    EXPECT_EQ(html("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
    EXPECT_EQ(html("größe …"), "größe …");
    const std::string safe = html(kHostile);
    EXPECT_EQ(safe.find_first_of("<>\"'\n\x1b\xff"), std::string::npos) << safe;
}

TEST(ReportText, ReplacesWhatATerminalObeysAndWhatIsNotUtf8) {
    EXPECT_EQ(printable("a\x1b[2Jb"), "a\xef\xbf\xbd[2Jb");
    EXPECT_EQ(printable("\xc2\x9b"), "\xef\xbf\xbd");  // CSI in one character
    for (const std::string bad : {"\xff", "\xc0", "\x80"}) EXPECT_EQ(printable(bad), "\xef\xbf\xbd");
    EXPECT_EQ(printable("\xed\xa0\x80").find('\xed'), std::string::npos);  // a surrogate
    EXPECT_EQ(printable("\xf4\x90\x80\x80").find('\xf4'), std::string::npos);
    EXPECT_EQ(printable("日本\xf0\x9f\x98\x80"), "日本\xf0\x9f\x98\x80");
    EXPECT_EQ(printable("日\xe6\x97"), "日\xef\xbf\xbd\xef\xbf\xbd");
}

TEST(ReportText, QuotesFieldsOfCsv) {
    EXPECT_EQ(csv_field("plain name"), "plain name");
    EXPECT_EQ(csv_field("a,b"), "\"a,b\"");
    EXPECT_EQ(csv_field("say \"x\"\r\n"), "\"say \"\"x\"\"\r\n\"");
}

TEST(ReportText, LeavesNothingThatGnuplotObeys) {
    EXPECT_EQ(gnuplot_string("read-64k (x2)"), "'read-64k (x2)'");
    const std::string safe = gnuplot_string(kHostile);
    ASSERT_EQ(safe.front(), '\'');
    ASSERT_EQ(safe.back(), '\'');
    EXPECT_EQ(safe.find_first_of("`'\"\\{}$%@^~#<>&;\n", 1), safe.size() - 1) << safe;
}

TEST(ReportText, ShortensInTheMiddleAndByCharacters) {
    EXPECT_EQ(shortened("randread-64k-direct-qd8", 11), "randr…t-qd8");
    EXPECT_EQ(shortened("größe", 5), "größe");
    EXPECT_EQ(length(shortened("日本語日本語日本語", 4)), 4U);
}

TEST(ReportText, WritesNumbersForPeople) {
    EXPECT_EQ(number(0), "0");
    EXPECT_EQ(number(123456.7), "123457");
    EXPECT_EQ(number(12.345), "12.35");
    EXPECT_EQ(number(2), "2");
    EXPECT_EQ(number(0.012346), "0.01235");
    EXPECT_EQ(number(-3.5), "-3.5");
    EXPECT_EQ(number(9.9999e-7), "1.000e-06");
    EXPECT_EQ(ratio_number(0.9971), "0.997");
    EXPECT_EQ(ratio_number(1), "1.000");
    EXPECT_EQ(ratio_number(14.23), "14.2");
    EXPECT_EQ(ratio_number(0.07123), "0.0712");
    EXPECT_EQ(ratio_text(2, 0.99651, 14.23), "2.000 [0.997, 14.2]");
}

TEST(ReportText, SetsColumns) {
    EXPECT_EQ(columns({{"a", "b"}, {"größe", "1"}}, {false, true}), "a      b\ngröße  1\n");
}

TEST(Dimensions, AreNumbersInTheNamesOfCases) {
    const auto found = dimensions_of("randread-64k-direct-iouring-qd32");
    ASSERT_THAT(found, SizeIs(2));
    EXPECT_EQ(found[0].name, "size");
    EXPECT_EQ(found[0].number, 65536);
    EXPECT_EQ(found[0].label, "64k");
    EXPECT_EQ(found[0].rest, "randread-*-direct-iouring-qd32");
    EXPECT_EQ(found[1].name, "qd");
    EXPECT_EQ(found[1].number, 32);
    EXPECT_EQ(dimensions_of("prefetch-8")[0].name, "prefetch");
    EXPECT_THAT(dimensions_of("in-order"), IsEmpty());
    EXPECT_THAT(dimensions_of("0k-99999999999999999999-8x"), IsEmpty());
}

ResultFigure figure(const std::string& target, const std::string& test, const std::string& metric,
                    const std::vector<double>& values) {
    ResultFigure made{.target = target,
                      .test = test,
                      .metric = metric,
                      .unit = "MB/s",
                      .better = Better::higher,
                      .values = values,
                      .summary = summarize(values),
                      .share_of_peak = {}};
    return made;
}

NamedResult result(const std::vector<std::string>& targets, const std::vector<std::string>& tests,
                   const std::string& metric = "mb_per_s") {
    NamedResult made{"r.json", {}};
    made.file.suite = "seqrand";
    made.file.complete = true;
    for (const auto& target : targets) {
        made.file.targets.push_back({});
        made.file.targets.back().name = target;
        for (const auto& test : tests)
            made.file.figures.push_back(figure(target, test, metric, {9, 10, 11, 10, 10}));
    }
    return made;
}

std::vector<Plot> plots_for(const NamedResult& one) {
    const std::vector<NamedResult> results = {one};
    return plots_of(sections_of(results)[0]);
}

TEST(Plots, AreLinesOverBlockSizesAndBarsOfTheRest) {
    const auto plots =
        plots_for(result({"a", "b"}, {"read-1m-mmap", "read-4k-mmap", "read-64k-mmap", "read-4k-direct",
                                      "read-64k-direct", "read-1m-direct", "whole-file"}));
    ASSERT_THAT(plots, SizeIs(2));
    EXPECT_EQ(plots[0].axis, "size");
    ASSERT_THAT(plots[0].panels, SizeIs(2));
    EXPECT_EQ(plots[0].panels[0].title, "read-*-mmap");
    EXPECT_THAT(plots[0].panels[0].labels, ElementsAre("4k", "64k", "1m"));
    EXPECT_THAT(plots[0].panels[0].series, SizeIs(2));
    EXPECT_EQ(plots[1].panels[0].kind, Chart::Kind::bars);
    EXPECT_THAT(plots[1].panels[0].labels, ElementsAre("whole-file"));
}

TEST(Plots, OfOneTargetHaveTheWaysAsLines) {
    const auto plots = plots_for(result({"a"}, {"read-4k-mmap", "read-64k-mmap", "read-1m-mmap",
                                                "read-4k-direct", "read-64k-direct", "read-1m-direct"}));
    ASSERT_THAT(plots, SizeIs(1));
    ASSERT_THAT(plots[0].panels, SizeIs(1));
    EXPECT_EQ(plots[0].panels[0].series[1].label, "read-*-direct");
}

TEST(Plots, OfManyCasesAreDivided) {
    std::vector<std::string> tests;
    for (std::size_t i = 0; i < 2 * kMostGroups + 1; ++i)
        tests.push_back("case" + std::string(1 + i / 26, static_cast<char>('a' + i % 26)));
    const auto plots = plots_for(result({"a"}, tests));
    ASSERT_THAT(plots, SizeIs(1));
    EXPECT_THAT(plots[0].panels, SizeIs(3));
}

Chart chart_of(const std::vector<double>& values) {
    Chart chart{
        .kind = Chart::Kind::bars, .title = "", .labels = {}, .numbers = {}, .series = {}, .scale = {}};
    chart.series.push_back({.label = "a", .look = 0, .marks = {}});
    for (const double value : values) {
        chart.labels.push_back("case");
        chart.series[0].marks.push_back(Mark{value, value * 0.9, value * 1.1});
    }
    return chart;
}

TEST(Scales, AreLogarithmicWhereValuesSpanDecades) {
    EXPECT_FALSE(scale_of({chart_of({10, 300})}).logarithmic);
    const Scale wide = scale_of({chart_of({10}), chart_of({2000})});
    EXPECT_TRUE(wide.logarithmic);
    EXPECT_EQ(wide.low, 1);
    EXPECT_EQ(wide.high, 10000);
    EXPECT_FALSE(scale_of({chart_of({0, 2000})}).logarithmic);
    EXPECT_EQ(scale_of({chart_of({0, 0})}).high, 1);
}

class Programs : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
    }
    void TearDown() override { fs::remove_all(root_); }

    /// A stand-in for gnuplot.
    std::string program(const std::string& script) {
        std::string path = root_ + "/gnuplot";
        std::ofstream(path) << "#!/bin/sh\n" << script;
        fs::permissions(path, fs::perms::owner_all);
        return path;
    }

    std::string root_;
};

TEST_F(Programs, GnuplotGetsTheScriptAndGivesItsOutput) {
    const auto out = Gnuplot(program("cat")).run("plot x\n");
    ASSERT_TRUE(out) << out.error().message;
    EXPECT_EQ(*out, "plot x\n");
}

TEST_F(Programs, GnuplotThatFailsIsAnErrorWithItsWords) {
    const auto out = Gnuplot(program("echo 'line 1: no such thing' >&2; exit 1")).run("plot x\n");
    ASSERT_FALSE(out);
    EXPECT_THAT(out.error().message, HasSubstr("no such thing"));
}

TEST_F(Programs, GnuplotThatHangsIsKilled) {
    const auto out = Gnuplot(program("exec sleep 1000"), Gnuplot::Milliseconds(50)).run("");
    ASSERT_FALSE(out);
    EXPECT_EQ(out.error().code, ETIMEDOUT);
}

TEST_F(Programs, WithoutGnuplotThePageHasTablesAndSaysWhatToInstall) {
    std::vector<std::string> problems;
    const std::string page =
        html_page({result({"a", "b"}, {"one", "two"})}, Gnuplot(root_ + "/none"), problems);
    ASSERT_THAT(problems, SizeIs(1));
    EXPECT_THAT(problems[0], HasSubstr("gnuplot-nox"));
    EXPECT_THAT(page, HasSubstr("gnuplot-nox"));
    EXPECT_THAT(page, HasSubstr("<table"));
    EXPECT_THAT(page, Not(HasSubstr("<svg")));
}

TEST_F(Programs, ScriptsHoldHostileNamesAsTextAlone) {
    const std::string log = root_ + "/scripts";
    const Gnuplot gnuplot(program("cat >> " + log + "; echo '<svg viewBox=\"0 0 1 1\"></svg>'"));
    std::vector<std::string> problems;
    const std::string page =
        html_page({result({kHostile, "b"}, {kHostile + "-4k", kHostile + "-16k", kHostile + "-64k", kHostile},
                          kHostile)},
                  gnuplot, problems);
    EXPECT_THAT(problems, IsEmpty());
    EXPECT_THAT(page, Not(HasSubstr("<script")));
    EXPECT_THAT(page, HasSubstr("&lt;script&gt;"));
    std::ifstream file(log);
    const std::string scripts(std::istreambuf_iterator<char>(file), {});
    EXPECT_THAT(scripts, HasSubstr("plot "));
    EXPECT_EQ(scripts.find_first_of("`@"), std::string::npos);
    EXPECT_THAT(scripts, Not(HasSubstr("system('")));
    EXPECT_THAT(scripts, Not(HasSubstr("\nsystem")));
}

TEST(Page, InlinesWhatGnuplotWrote) {
    const std::string svg = inlined(
        "<?xml version='1.0'?><svg width='9' viewBox=\"0 0 7 9\"><title>Gnuplot</title><g "
        "id=\"plot_1\"><path "
        "stroke='black' id='gpPt1'/><use xlink:href='#gpPt1' color='rgb(  1,   0,   2)'/></g></svg>",
        "p1", "a \"chart\"");
    EXPECT_EQ(
        svg,
        "<svg viewBox=\"0 0 7 9\" role=\"img\" aria-label=\"a &quot;chart&quot;\"><g id=\"p1-plot_1\"><path "
        "stroke='currentColor' id='p1-gpPt1'/><use href='#p1-gpPt1' color='var(--look-1)'/></g></svg>");
    EXPECT_EQ(inlined("no such thing", "p1", ""), "");
}

TEST(Page, CsvHasALineForEachValue) {
    auto one = result({"a,b"}, {"say \"x\""});
    one.file.figures[0].values = {0.1, -2};
    EXPECT_EQ(csv_table({one}),
              "file,suite,target,case,metric,unit,run,value\r\n"
              "r.json,seqrand,\"a,b\",\"say \"\"x\"\"\",mb_per_s,MB/s,1,0.10000000000000001\r\n"
              "r.json,seqrand,\"a,b\",\"say \"\"x\"\"\",mb_per_s,MB/s,2,-2\r\n");
}

TEST(Page, OfAFileWithNothingInItIsAPage) {
    std::vector<std::string> problems;
    const std::string page = html_page({NamedResult{"empty.json", {}}}, Gnuplot("/none"), problems);
    EXPECT_THAT(page, HasSubstr("</html>"));
    EXPECT_THAT(page, HasSubstr("interrupted"));
    EXPECT_EQ(csv_table({NamedResult{"empty.json", {}}}), "file,suite,target,case,metric,unit,run,value\r\n");
}

}  // namespace report_test
}  // namespace tierfs::iobench
