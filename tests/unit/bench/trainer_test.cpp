#include "bench/iobench/suites/trainer.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/suites/dataset_rule.hpp"
#include "bench/iobench/suites/trainer_options.hpp"

namespace tierfs::iobench {
namespace trainer_test {

namespace fs = std::filesystem;

std::map<std::string, double> by_name(const Metrics& metrics) {
    std::map<std::string, double> values;
    for (const auto& metric : metrics) values[metric.name] = metric.value;
    return values;
}

std::multiset<std::uint64_t> places(const Division& division, std::uint64_t rank) {
    std::multiset<std::uint64_t> all;
    for (std::uint64_t step = 0; step < division.steps(); ++step)
        for (std::uint64_t i = 0; i < division.size_of(step); ++i) all.insert(division.place(rank, step, i));
    return all;
}

TEST(TrainerDivision, DropsWhatDoesNotFillAStepOfAllRanks) {
    const Division division{107, 3, 10};
    EXPECT_EQ(division.steps(), 3U);
    for (std::uint64_t rank = 0; rank < 3; ++rank) {
        std::multiset<std::uint64_t> expected;
        for (std::uint64_t i = 0; i < 30; ++i) expected.insert(rank + 3 * i);
        EXPECT_EQ(places(division, rank), expected);
    }
    EXPECT_EQ((Division{9, 1, 10}).steps(), 0U);
    EXPECT_EQ((Division{10, 1, 10}).steps(), 1U);
    EXPECT_EQ((Division{19, 2, 10}).steps(), 0U);
}

TEST(TrainerDivision, KeepLastReadsAllAndFillsUpRanksFromTheBeginning) {
    const Division one{107, 1, 10, true};
    EXPECT_EQ(one.steps(), 11U);
    EXPECT_EQ(one.size_of(10), 7U);
    EXPECT_EQ(places(one, 0).size(), 107U);
    const Division division{10, 4, 2, true};  // 3 for each rank: 12, of which 0 and 1 are read twice
    std::map<std::uint64_t, int> read;
    for (std::uint64_t rank = 0; rank < 4; ++rank) {
        const auto own = places(division, rank);
        EXPECT_EQ(own.size(), 3U);
        for (const auto place : own) ++read[place];
    }
    EXPECT_EQ(read.size(), 10U);
    for (const auto& [place, times] : read) EXPECT_EQ(times, place < 2 ? 2 : 1) << place;
}

EpochRecord record(std::uint64_t begun_ms, const std::vector<Step>& steps_ms) {
    StepBlock block;
    block.start = begun_ms * 1'000'000;
    for (Step step : steps_ms) {
        for (auto* time : {&step.asked, &step.loaded, &step.computed, &step.synchronized}) *time *= 1'000'000;
        block.steps.push_back(step);
    }
    block.end = block.steps.back().synchronized;
    return {{{block}}, block.start, 2 * steps_ms.size(), 1'000'000 * steps_ms.size()};
}

TEST(TrainerMetrics, AreWhatTheTracesSay) {
    const auto first = record(100, {{100, 140, 150, 151}, {151, 155, 165, 168}, {168, 170, 180, 200}});
    const auto second = record(300, {{300, 310, 320, 320}, {320, 320, 330, 330}, {330, 330, 340, 400}});
    auto run = by_name(trainer_metrics({first, second}, 2, 1 << 19));
    EXPECT_DOUBLE_EQ(run["epoch_s"], 0.1);
    EXPECT_DOUBLE_EQ(run["samples_per_s"], 60);
    EXPECT_DOUBLE_EQ(run["mb_per_s"], 30);
    EXPECT_DOUBLE_EQ(run["stall_s"], (0.046 + 0.010) / 2);
    EXPECT_DOUBLE_EQ(run["first_batch_s"], 0.025);
    EXPECT_DOUBLE_EQ(run["compute_s"], 0.03);
    EXPECT_DOUBLE_EQ(run["barrier_s"], (0.024 + 0.060) / 2);
    EXPECT_DOUBLE_EQ(run["barrier_us"], 14000);
    EXPECT_DOUBLE_EQ(run["barrier_percent"], 42);
    EXPECT_DOUBLE_EQ(run["au_percent"], (100 * (20.0 / 50) + 100 * (20.0 / 80)) / 2);
    EXPECT_DOUBLE_EQ(run["au_net_percent"], (100 * (20.0 / 26) + 100 * (20.0 / 20)) / 2);
    EXPECT_DOUBLE_EQ(run["dlio_samples_per_s"], (2 / 0.05 + 2 / 0.08) / 2);
    EXPECT_DOUBLE_EQ(run["dlio_mib_per_s"], run["dlio_samples_per_s"] / 2);
    EXPECT_EQ(run["steps"], 3);
    EXPECT_DOUBLE_EQ(run["epoch2_au_percent"], 25);
    EXPECT_DOUBLE_EQ(run["epoch1_stall_s"], 0.046);
    EXPECT_FALSE(by_name(trainer_metrics({first}, 2, 1)).contains("epoch1_s"));
}

class TrainerTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        plan_.directory = root_ + "/data";
        plan_.kind = Kind::random;
        plan_.files = 50;
        plan_.size = 3000;
        make();
        options_.trainer.batch = 4;
        options_.trainer.compute_ms = 0;
    }
    void TearDown() override { fs::remove_all(root_); }

    void make() {
        const auto made = make_dataset(plan_);
        ASSERT_TRUE(made) << made.error().message;
        ASSERT_TRUE(write_manifest(root_ + "/manifest", made->manifest));
        options_.path = plan_.directory;
        options_.manifest = root_ + "/manifest";
    }
    std::map<std::string, double> run(const SuiteKind& kind, std::size_t which = 0) {
        const auto suite = kind.make(options_);
        EXPECT_TRUE(suite) << suite.error().message;
        if (!suite) return {};
        const auto metrics = (*suite)->run(which, 1);
        EXPECT_TRUE(metrics) << metrics.error().message;
        if (metrics) remarks_ = (*suite)->remarks(*metrics);
        return metrics ? by_name(*metrics) : std::map<std::string, double>();
    }

    std::string root_;
    DatasetPlan plan_;
    RunOptions options_;
    std::vector<std::string> remarks_;
};

TEST_F(TrainerTest, RanksMeetAfterEveryStepAndDivideTheSamples) {
    options_.trainer.ranks = 3;
    options_.trainer.workers = 2;
    options_.trainer.compute_ms = 1;
    const auto set = find_samples(options_);
    ASSERT_TRUE(set);
    const auto made = Trainer(options_, *set).epoch(1);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(made->samples, 48U);
    EXPECT_EQ(made->bytes, 48U * 3000);
    ASSERT_EQ(made->trace.size(), 3U);
    for (std::size_t step = 0; step < 4; ++step) {
        std::uint64_t last_arrival = 0, first_left = ~0ULL;
        for (const auto& rank : made->trace) {
            const Step& own = rank.at(0).steps.at(step);
            EXPECT_LE(own.asked, own.loaded);
            EXPECT_GE(own.computed - own.loaded, 1'000'000U);
            last_arrival = std::max(last_arrival, own.computed);
            first_left = std::min(first_left, own.synchronized);
        }
        EXPECT_GE(first_left, last_arrival) << step;
    }
}

TEST_F(TrainerTest, EpochsAreShuffledAnewAndAllReported) {
    options_.trainer.epochs = 3;
    auto values = run(*epoch_kind());
    EXPECT_EQ(values["steps"], 12);
    EXPECT_EQ(values["samples"], 48);
    EXPECT_TRUE(values.contains("epoch3_au_net_percent"));
}

TEST_F(TrainerTest, WithoutComputingTheBarrierIsStated) {
    auto values = run(*epoch_kind());
    ASSERT_EQ(remarks_.size(), 1U);
    EXPECT_NE(remarks_[0].find("the barrier after each step took"), std::string::npos) << remarks_[0];
    EXPECT_GT(values["barrier_us"], 0);
    EXPECT_LT(values["au_percent"], 100);
}

TEST_F(TrainerTest, APresetsBarAndItsStepsAreStated) {
    options_.trainer.au_bar_percent = 85;
    options_.trainer.compute_ms = 1;
    run(*epoch_kind());
    ASSERT_EQ(remarks_.size(), 2U);
    EXPECT_NE(remarks_[0].find("MLPerf Storage asks for 85 %"), std::string::npos) << remarks_[0];
    EXPECT_NE(remarks_[1].find("12 steps"), std::string::npos) << remarks_[1];
}

TEST_F(TrainerTest, FilesOfManyRecordsAreNotHeldAgainstThePresetsBar) {
    options_.manifest.clear();
    options_.samples.record_size = 1000;
    options_.trainer.au_bar_percent = 90;
    options_.trainer.compute_ms = 1;
    run(*epoch_kind());
    ASSERT_EQ(remarks_.size(), 2U);
    EXPECT_NE(remarks_[0].find("not to be compared with MLPerf Storage's 90 %: records are read at random"),
              std::string::npos)
        << remarks_[0];
}

TEST_F(TrainerTest, EveryEpochAndRunReadsTheSamePartOfTheSamples) {
    options_.samples.files = 12;
    const auto first = order_of(50, options_, 1), second = order_of(50, options_, 2);
    EXPECT_EQ(first.size(), 12U);
    EXPECT_NE(first, second);
    EXPECT_EQ(std::set(first.begin(), first.end()), std::set(second.begin(), second.end()));
    // drawn from all of them
    EXPECT_GE(*std::max_element(first.begin(), first.end()), 12U);
    // the others are never opened
    const auto set = find_samples(options_);
    ASSERT_TRUE(set);
    for (const auto* kind : {"epoch", "smallfiles"}) {
        const auto suite = (kind == std::string("epoch") ? epoch_kind() : smallfiles_kind())->make(options_);
        ASSERT_TRUE(suite);
        for (std::uint32_t i = 0; i < 50; ++i)
            if (std::find(first.begin(), first.end(), i) == first.end())
                fs::rename(set->files[i], set->files[i] + ".away");
        for (const std::uint64_t seed : {1, 2, 3}) EXPECT_TRUE((*suite)->run(0, seed)) << kind;
        for (std::uint32_t i = 0; i < 50; ++i)
            if (std::find(first.begin(), first.end(), i) == first.end())
                fs::rename(set->files[i] + ".away", set->files[i]);
    }
}

TEST_F(TrainerTest, TheMeanSizeIsThatOfTheSamplesThatAreRead) {
    SampleSet set;
    for (std::uint64_t i = 0; i < 50; ++i) set.samples.push_back({0, true, 0, i, {}});
    EXPECT_DOUBLE_EQ(mean_size(set, options_), 24.5);
    options_.samples.files = 1;
    EXPECT_DOUBLE_EQ(mean_size(set, options_), chosen(50, options_).at(0));
}

TEST_F(TrainerTest, OnlyTheFileThatWasOpenedFirstIsClosedForAnother) {
    options_.manifest.clear();
    options_.samples.record_size = 1000;
    const auto set = find_samples(options_);
    ASSERT_TRUE(set);
    ASSERT_EQ(set->samples.size(), 150U);
    SampleReader reader(*set, 1000, 2);
    const auto read = [&](std::uint32_t file) { return reader.read(set->samples[3 * file]).has_value(); };
    for (const std::uint32_t file : {0, 1, 2}) ASSERT_TRUE(read(file));
    for (const std::uint32_t file : {0, 1, 2}) fs::remove(set->files[file]);
    EXPECT_TRUE(read(1));
    EXPECT_TRUE(read(2));
    EXPECT_FALSE(read(0));
}

TEST(SampleFiles, AsManyStayOpenAsTheHardLimitAllows) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const rlimit limit{128, 512};
        if (setrlimit(RLIMIT_NOFILE, &limit) != 0) _exit(1);
        if (most_open_files() != 512 - 64) _exit(2);
        rlimit now{};
        getrlimit(RLIMIT_NOFILE, &now);
        if (now.rlim_cur != 512) _exit(3);
        const rlimit few{40, 40};
        if (setrlimit(RLIMIT_NOFILE, &few) != 0) _exit(4);
        _exit(most_open_files() == 1 ? 0 : 5);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST_F(TrainerTest, FewerSamplesThanAStepIsAnErrorUnlessTheLastIsKept) {
    options_.trainer.batch = 51;
    const auto suite = epoch_kind()->make(options_);
    ASSERT_FALSE(suite);
    EXPECT_NE(suite.error().message.find("--keep-last"), std::string::npos);
    EXPECT_FALSE(depth_kind()->make(options_));
    options_.trainer.keep_last = true;
    EXPECT_EQ(run(*epoch_kind())["samples"], 50);
}

TEST_F(TrainerTest, MoreWorkersThanBatchesEnd) {
    options_.trainer.batch = 50;
    options_.trainer.workers = 5;
    EXPECT_EQ(run(*epoch_kind())["steps"], 1);
}

TEST_F(TrainerTest, ReadsRecordsWhereTheyLie) {
    fs::remove_all(plan_.directory);
    plan_.kind = Kind::tfrecord;
    plan_.files = 3;
    plan_.records = 20;
    plan_.size_stdev = 500;
    make();
    const auto set = find_samples(options_);
    ASSERT_TRUE(set) << set.error().message;
    EXPECT_EQ(set->files.size(), 3U);
    EXPECT_EQ(set->samples.size(), 60U);
    EXPECT_EQ(run(*epoch_kind())["samples"], 60);
    std::fstream file(plan_.directory + "/class_000/00000002.tfrecord",
                      std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5000);
    const auto byte = static_cast<char>(file.peek() ^ 1);
    file.seekp(5000);
    file.put(byte);
    file.close();
    const auto suite = epoch_kind()->make(options_);
    ASSERT_TRUE(suite);
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_FALSE(metrics);
    EXPECT_NE(metrics.error().message.find("00000002.tfrecord at byte"), std::string::npos);
}

TEST_F(TrainerTest, AnIndexThatTheManifestDoesNotHaveIsRefused) {
    const std::string text = index_text({{"x", "class_000/00000001.bin", 0, 3000, std::string(32, '0')}});
    std::ofstream(plan_.directory + "/" + std::string(kRecordIndex)) << text;
    EXPECT_FALSE(find_samples(options_));
    options_.manifest.clear();
    const auto set = find_samples(options_);
    ASSERT_TRUE(set);
    EXPECT_EQ(set->samples.size(), 1U);
}

TEST_F(TrainerTest, RecordSizeCutsFilesWithoutAnIndex) {
    options_.manifest.clear();
    options_.samples.record_size = 1000;
    EXPECT_EQ(run(*epoch_kind())["samples"], 148);  // 50 * 3 = 150, in batches of 4
    options_.manifest = root_ + "/manifest";
    EXPECT_FALSE(find_samples(options_));
}

TEST_F(TrainerTest, DepthHasACaseForEachPair) {
    auto kind = depth_kind();
    CLI::App app;
    kind->add_options(app);
    app.parse("--prefetches 1,3 --worker-counts 2,1", false);
    const auto suite = kind->make(options_);
    ASSERT_TRUE(suite);
    EXPECT_EQ((*suite)->cases(), (std::vector<std::string>{"prefetch1-workers2", "prefetch3-workers2",
                                                           "prefetch1-workers1", "prefetch3-workers1"}));
    EXPECT_EQ(run(*kind, 1)["steps"], 12);
    CLI::App twice;
    kind->add_options(twice);
    twice.parse("--prefetches 2,2", false);
    EXPECT_FALSE(kind->make(options_));
}

/// What a command line makes of the options, the preset applied.
Result<RunOptions> parsed(const std::string& line) {
    CLI::App app;
    RunOptions options;
    TrainerCommandLine trainer;
    trainer.add(app, options);
    app.parse(line, false);
    if (auto applied = trainer.apply_preset(options); !applied) return fail(applied.error());
    return options;
}

TEST(TrainerOptionsTest, APresetFillsInWhatIsNotGiven) {
    const auto options = parsed("--preset unet3d --accelerator b200 --scale 0.5 --workers 3");
    ASSERT_TRUE(options);
    EXPECT_EQ(options->trainer.batch, 7U);
    EXPECT_EQ(options->trainer.workers, 3U);
    EXPECT_DOUBLE_EQ(options->trainer.compute_ms, 162);
    EXPECT_EQ(options->trainer.au_bar_percent, 90);
    EXPECT_EQ(options->samples.files, 84U);
    EXPECT_GT(options->samples.max_file, 500'000'000U);
    const auto own = parsed("--preset retinanet --batch 3 --compute 0 --max-file 1M --files 9");
    ASSERT_TRUE(own);
    EXPECT_EQ(own->trainer.batch, 3U);
    EXPECT_EQ(own->trainer.workers, 8U);
    EXPECT_EQ(own->trainer.compute_ms, 0);
    EXPECT_EQ(own->samples.max_file, 1U << 20);
    EXPECT_EQ(own->samples.files, 9U);
}

TEST(TrainerOptionsTest, AnUnknownComputeTimeIsAnErrorThatNamesTheKnown) {
    const auto options = parsed("--preset retinanet --accelerator a100");
    ASSERT_FALSE(options);
    EXPECT_NE(options.error().message.find("known: b200"), std::string::npos);
    EXPECT_TRUE(parsed("--preset retinanet --accelerator a100 --compute 210"));
    EXPECT_THROW(static_cast<void>(parsed("--scale 0.5")), CLI::ParseError);
    EXPECT_THROW(static_cast<void>(parsed("--preset dlrm")), CLI::ParseError);
}

TEST(DatasetRuleTest, SaysWhatKeepsThePageCacheOut) {
    const DatasetFacts small{100, 1000, DropCaches::none, true, true, false, false};
    auto rule = judge(small);
    EXPECT_EQ(rule.drop, DropCaches::page);
    EXPECT_NE(rule.text.find("the page cache is dropped before each epoch"), std::string::npos);
    EXPECT_EQ(rule.warning, "");
    DatasetFacts facts = small;
    facts.can_drop = false;
    rule = judge(facts);
    EXPECT_EQ(rule.drop, DropCaches::none);
    EXPECT_NE(rule.warning.find("page cache"), std::string::npos);
    facts.preset = false;
    EXPECT_EQ(judge(facts).warning, "");
    EXPECT_NE(judge(facts).text.find("no caches are dropped"), std::string::npos);
    facts.drop = DropCaches::all;  // as asked
    EXPECT_EQ(judge(facts).drop, DropCaches::all);
    facts = small;
    facts.dataset = 4999;  // more than the memory is not enough
    EXPECT_EQ(judge(facts).drop, DropCaches::page);
    EXPECT_NE(judge(facts).text.find("asks for 5 x"), std::string::npos);
    facts.can_drop = false;
    EXPECT_NE(judge(facts).warning.find("run as root"), std::string::npos);
    facts.can_drop = true;
    facts.dataset = 5000;
    EXPECT_EQ(judge(facts).drop, DropCaches::none);
    EXPECT_NE(judge(facts).text.find("as MLPerf Storage asks"), std::string::npos);
    EXPECT_EQ(judge(facts).warning, "");
    facts.in_memory = true;
    EXPECT_NE(judge(facts).warning.find("tmpfs"), std::string::npos);
}

TEST(DatasetRuleTest, WhatWasAskedForIsKept) {
    DatasetFacts facts{100, 1000, DropCaches::none, true, true, true, false};
    const auto rule = judge(facts);
    EXPECT_EQ(rule.drop, DropCaches::none);
    EXPECT_NE(rule.text.find("no caches are dropped"), std::string::npos);
    EXPECT_NE(rule.warning.find("--drop-caches none was given"), std::string::npos);
    facts.drop = DropCaches::all;
    EXPECT_EQ(judge(facts).drop, DropCaches::all);
    EXPECT_EQ(judge(facts).warning, "");
}

TEST_F(TrainerTest, TheRuleCountsWhatAnEpochReads) {
    options_.samples.files = 10;
    const auto rule = dataset_rule(options_, false);
    ASSERT_TRUE(rule);
    EXPECT_NE(rule->text.find("0.03 MB"), std::string::npos) << rule->text;
}

}  // namespace trainer_test
}  // namespace tierfs::iobench
