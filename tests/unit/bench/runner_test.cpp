#include "bench/iobench/run/runner.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <set>

#include "bench/iobench/run/run_progress.hpp"
#include "bench/iobench/run/table.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {
namespace runner_test {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

ResultTarget named(const std::string& name) {
    ResultTarget target;
    target.name = name;
    target.path = "/p";
    return target;
}

/// What the suites were told, in the order in which they ran; they run in processes of their own.
struct Log {
    struct Entry {
        char target;
        std::uint64_t which, seed;
    };
    Shared<Entry> entries{1000};
    Shared<std::size_t> count{1};

    [[nodiscard]] std::string order() {
        std::string text;
        for (std::size_t i = 0; i < count[0]; ++i)
            text += entries[i].target + std::to_string(entries[i].which);
        return text;
    }
    [[nodiscard]] std::vector<std::uint64_t> seeds() {
        std::vector<std::uint64_t> all;
        for (std::size_t i = 0; i < count[0]; ++i) all.push_back(entries[i].seed);
        return all;
    }
};

/// Its metric mb_per_s is 100 times the number of the run among all, or what `run_` says.
class FakeSuite : public Suite {
  public:
    using Run = std::function<Result<Metrics>(std::size_t number)>;
    FakeSuite(Log& log, char target, std::vector<std::string> cases, Run run = {})
        : log_(log), target_(target), cases_(std::move(cases)), run_(std::move(run)) {}
    [[nodiscard]] std::vector<std::string> cases() const override { return cases_; }
    Result<Metrics> run(std::size_t which, std::uint64_t seed) override {
        const std::size_t number = log_.count[0]++;
        log_.entries[number] = {target_, which, seed};
        if (run_) return run_(number);
        return Metrics{{"mb_per_s", 100.0 * static_cast<double>(number + 1), Better::higher}};
    }

  private:
    Log& log_;
    char target_;
    std::vector<std::string> cases_;
    Run run_;
};

class RunnerTest : public testing::Test {
  protected:
    void add(char name, std::vector<std::string> cases, FakeSuite::Run run = {}) {
        Target target{.description = named(std::string(1, name)),
                      .suite = std::make_unique<FakeSuite>(log_, name, std::move(cases), std::move(run)),
                      .daemon = {}};
        targets_.push_back(std::move(target));
    }
    Result<void> run() {
        Interruption stop;
        auto done = Runner(plan_, std::move(targets_), look_).run(stop, result_);
        signal_ = stop.signal();
        return done;
    }
    [[nodiscard]] const ResultFigure& figure(const std::string& target, const std::string& test,
                                             const std::string& metric = "mb_per_s") const {
        static const ResultFigure none;
        const auto found =
            std::find_if(result_.figures.begin(), result_.figures.end(), [&](const auto& figure) {
                return figure.target == target && figure.test == test && figure.metric == metric;
            });
        return found == result_.figures.end() ? none : *found;
    }

    Log log_;
    RunPlan plan_{.runs = 3, .warm_up = 0, .seed = 1, .progress = false};
    std::vector<Target> targets_;
    Runner::Look look_ = [] { return MachineState{}; };
    ResultFile result_;
    int signal_ = 0;
};

TEST_F(RunnerTest, TargetsTakeTurnsCaseByCase) {
    add('A', {"x", "y"});
    add('B', {"x", "y"});
    ASSERT_TRUE(run());
    EXPECT_EQ(log_.order(), "A0B0A0B0A0B0A1B1A1B1A1B1");
    EXPECT_TRUE(result_.complete);
    EXPECT_THAT(figure("A", "x").values, ElementsAre(100, 300, 500));
    EXPECT_THAT(figure("B", "x").values, ElementsAre(200, 400, 600));
    EXPECT_THAT(figure("B", "y").values, ElementsAre(800, 1000, 1200));
    EXPECT_EQ(figure("A", "x").summary, summarize({100, 300, 500}));
    EXPECT_EQ(figure("A", "x").unit, "MB/s");
    EXPECT_EQ(figure("A", "x").better, Better::higher);
}

TEST_F(RunnerTest, TargetsHaveTheSameSeedInARound) {
    add('A', {"x"});
    add('B', {"x"});
    ASSERT_TRUE(run());
    const auto seeds = log_.seeds();
    EXPECT_EQ(seeds[0], seeds[1]);
    EXPECT_EQ(seeds[2], seeds[3]);
    EXPECT_EQ(std::set(seeds.begin(), seeds.end()).size(), 3);
}

TEST_F(RunnerTest, WarmUpsComeFirstAndDoNotCount) {
    plan_.warm_up = 2;
    add('A', {"x", "y"});
    ASSERT_TRUE(run());
    EXPECT_EQ(log_.order(), "A0A0A0A0A0A1A1A1A1A1");
    EXPECT_THAT(figure("A", "x").values, ElementsAre(300, 400, 500));
    auto seeds = log_.seeds();
    seeds.resize(5);
    EXPECT_EQ(std::set(seeds.begin(), seeds.end()).size(), 5);
}

TEST_F(RunnerTest, SeedsOfRunsDoNotDependOnWarmUps) {
    add('A', {"x"});
    ASSERT_TRUE(run());
    const auto without = log_.seeds();
    log_.count[0] = 0;
    plan_.warm_up = 1;
    add('A', {"x"});
    ASSERT_TRUE(run());
    const auto with = log_.seeds();
    EXPECT_TRUE(std::equal(without.begin(), without.end(), with.begin() + 1));
}

TEST_F(RunnerTest, CaseThatOneTargetLacksIsLeftOutForIt) {
    add('A', {"x"});
    add('B', {"y", "x"});
    ASSERT_TRUE(run());
    EXPECT_EQ(log_.order(), "A0B1A0B1A0B1B0B0B0");
    EXPECT_TRUE(figure("A", "y").values.empty());
    EXPECT_EQ(figure("B", "y").values.size(), 3);
    EXPECT_THAT(table_of(result_), HasSubstr("y"));
}

TEST_F(RunnerTest, ErrorKeepsWhatWasMeasured) {
    add('A', {"x"}, [](std::size_t number) -> Result<Metrics> {
        if (number == 2) return fail(ENOENT, "it is gone");
        return Metrics{{"mb_per_s", 7, Better::higher}};
    });
    const auto done = run();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ENOENT);
    EXPECT_EQ(done.error().message, "x, A, run 3: it is gone");
    EXPECT_FALSE(result_.complete);
    EXPECT_THAT(figure("A", "x").values, ElementsAre(7, 7));
}

TEST_F(RunnerTest, SignalKeepsWhatWasMeasured) {
    const pid_t parent = getpid();
    add('A', {"x"}, [parent](std::size_t number) -> Result<Metrics> {
        if (number < 2) return Metrics{{"mb_per_s", 7, Better::higher}};
        kill(parent, SIGINT);
        for (;;) pause();
    });
    const auto done = run();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, ECANCELED);
    EXPECT_EQ(signal_, SIGINT);
    EXPECT_FALSE(result_.complete);
    EXPECT_THAT(figure("A", "x").values, ElementsAre(7, 7));
}

TEST_F(RunnerTest, SuiteThatChangesItsMetricsIsAnError) {
    add('A', {"x"}, [](std::size_t number) -> Result<Metrics> {
        return Metrics{{number == 1 ? "b" : "a", 7, Better::higher}};
    });
    const auto done = run();
    ASSERT_FALSE(done);
    EXPECT_THAT(done.error().message, HasSubstr("other metrics"));
}

TEST_F(RunnerTest, ThroughputIsAShareOfThePeak) {
    add('A', {"x"}, [](std::size_t) -> Result<Metrics> {
        return Metrics{{"mb_per_s", 50, Better::higher},
                       {"write_mb_per_s", 50, Better::higher},
                       {"files_per_s", 50, Better::higher}};
    });
    targets_[0].description.device = ResultDevice{"sda", "", 200};
    ASSERT_TRUE(run());
    EXPECT_EQ(figure("A", "x", "mb_per_s").share_of_peak, 0.25);
    EXPECT_EQ(figure("A", "x", "write_mb_per_s").share_of_peak, std::nullopt);
    EXPECT_EQ(figure("A", "x", "files_per_s").share_of_peak, std::nullopt);
    EXPECT_THAT(table_of(result_), HasSubstr("25 %"));
}

TEST_F(RunnerTest, DisturbancesBelongToTheirRun) {
    plan_.warm_up = 1;
    unsigned looks = 0;
    look_ = [&looks] {  // twice a run, not in warm-ups: the fourth look is after run 2
        MachineState state;
        state.drops = CacheDrops{++looks >= 4 ? 6U : 5U, 0};
        return state;
    };
    add('A', {"x"});
    ASSERT_TRUE(run());
    EXPECT_EQ(looks, 6);
    EXPECT_THAT(result_.disturbances,
                ElementsAre(ResultDisturbance{
                    .target = "A", .test = "x", .what = "caches were dropped by somebody else", .run = 2}));
    EXPECT_THAT(table_of(result_), HasSubstr("disturbed: x, A, run 2: caches were dropped"));
}

TEST_F(RunnerTest, DaemonIsRecorded) {
    const auto moved = [](std::size_t) -> Result<Metrics> {
        const Fd zeros(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
        std::vector<char> buffer(2 << 20);
        if (read(zeros.get(), buffer.data(), buffer.size()) < 0) return fail(EIO, "read");
        return Metrics{{"mb_per_s", 1, Better::higher}};
    };
    add('A', {"x"}, moved);
    add('B', {"x"}, moved);
    auto daemon = Daemon::find({getpid()});
    ASSERT_TRUE(daemon);
    targets_[0].daemon = std::move(*daemon);
    ASSERT_TRUE(run());
    ASSERT_TRUE(result_.targets[0].daemon);
    EXPECT_EQ(result_.targets[0].daemon->pid, getpid());
    EXPECT_GT(result_.targets[0].daemon->peak_rss_bytes, 1U << 20);
    EXPECT_FALSE(result_.targets[1].daemon);
    EXPECT_EQ(figure("A", "x", "daemon_peak_mb").values.size(), 3);
    EXPECT_EQ(figure("B", "x", "daemon_peak_mb").values.size(), 0);
    if (result_.targets[0].daemon->cpu_s_per_gib) {
        EXPECT_EQ(figure("A", "x", "daemon_cpu_s_per_gib").unit, "s/GiB");
    }
    EXPECT_TRUE(iobench::from_json(to_json(result_), "written"));
}

TEST(DaemonTest, EndsAndIsMissed) {
    const pid_t child = fork();
    if (child == 0)
        for (;;) pause();
    auto daemon = Daemon::find({child});
    ASSERT_TRUE(daemon);
    EXPECT_EQ(daemon->lost(), std::nullopt);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    EXPECT_FALSE(Daemon::find({child}));
    daemon->sample();
    ASSERT_TRUE(daemon->lost());
    EXPECT_THAT(*daemon->lost(), HasSubstr("process " + std::to_string(child)));
}

TEST(DaemonTest, CountsProcessorTimeFromItsBeginning) {
    auto daemon = Daemon::find({getpid()});
    ASSERT_TRUE(daemon);
    while (daemon->cpu_s() < 0.02) daemon->sample();  // which takes processor time itself
    daemon->begin();
    EXPECT_LT(daemon->cpu_s(), 0.02);
}

TEST(DaemonTest, NoSocketNoTierfs) {
    EXPECT_EQ(tierfs_daemon("0:1", "/nowhere"), std::nullopt);
    EXPECT_EQ(tierfs_daemon(std::string(500, 'x'), "/nowhere"), std::nullopt);
}

ResultFigure figure_of(const std::string& target, const std::vector<double>& values) {
    return {.target = target,
            .test = "x",
            .metric = "mb_per_s",
            .unit = "MB/s",
            .better = Better::higher,
            .values = values,
            .summary = summarize(values),
            .share_of_peak = {}};
}

TEST(Table, ComparesWithTheFirstTarget) {
    ResultFile result;
    result.targets = {named("one"), named("two")};
    result.figures = {figure_of("one", {1, 10, 100, 2, 5}), figure_of("two", {2, 20, 200, 4, 10})};
    const std::string table = table_of(result);
    EXPECT_THAT(table, HasSubstr("to one [95 %]"));
    EXPECT_THAT(table, HasSubstr("2.000 [2.000, 2.000]"));
    EXPECT_THAT(table, HasSubstr("faster"));
    EXPECT_THAT(table, HasSubstr("run 3: 100"));
    EXPECT_THAT(table, Not(HasSubstr("of peak")));
}

TEST(Table, NamesThatAreEscapeSequencesAreHarmless) {
    ResultFile result;
    result.targets = {named("a\x1b[2J")};
    result.figures = {figure_of("a\x1b[2J", {1})};
    result.disturbances = {{.target = "\x1b", .test = "\x1b", .what = "\x1b", .run = 1}};
    result.warnings = {"\x1b"};
    result.dataset_rule = "\x1b";
    EXPECT_THAT(table_of(result), Not(HasSubstr("\x1b")));
}

TEST(Table, ManyDisturbancesAreCounted) {
    ResultFile result;
    for (unsigned i = 1; i <= 30; ++i)
        result.disturbances.push_back({.target = "t", .test = "x", .what = "w", .run = i});
    EXPECT_THAT(table_of(result), HasSubstr("disturbed: 20 times more"));
    EXPECT_FALSE(table_of(ResultFile{}).empty());
}

TEST(ProgressLine, TellsWhatIsDoneAndWhatIsLeft) {
    RunStep step{.test = "shuffled", .target = "xfs", .test_number = 2, .tests = 6, .run = 3, .runs = 5};
    EXPECT_EQ(progress_line(step, 0, 30, std::chrono::seconds(0)), "case 2 of 6, shuffled: xfs, run 3 of 5");
    EXPECT_EQ(progress_line(step, 10, 30, std::chrono::seconds(20)),
              "case 2 of 6, shuffled: xfs, run 3 of 5, 40 s left");
    step.warm_up = true;
    EXPECT_EQ(progress_line(step, 10, 30, std::chrono::seconds(200)),
              "case 2 of 6, shuffled: xfs, warm-up 3 of 5, 7 min left");
}

}  // namespace runner_test
}  // namespace tierfs::iobench
