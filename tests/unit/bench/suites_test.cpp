#include "bench/iobench/suites/suites.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <map>
#include <stdexcept>

#include "bench/iobench/data/dataset.hpp"
#include "bench/iobench/run/workers.hpp"

namespace tierfs::iobench {
namespace suites_test {

namespace fs = std::filesystem;

std::map<std::string, double> by_name(const Metrics& metrics) {
    std::map<std::string, double> values;
    for (const auto& metric : metrics) values[metric.name] = metric.value;
    return values;
}

/// The kind after its options were read from a command line.
std::unique_ptr<SuiteKind> with(std::unique_ptr<SuiteKind> kind, std::vector<std::string> words) {
    CLI::App app;
    kind->add_options(app);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
    return kind;
}

class Suites : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        DatasetPlan plan;
        plan.directory = root_ + "/data";
        plan.kind = Kind::random;
        plan.files = 50;
        plan.size = 3000;
        plan.large = {{"big", 5'000'000}};
        const auto made = make_dataset(plan);
        ASSERT_TRUE(made);
        ASSERT_TRUE(write_manifest(root_ + "/manifest", made->manifest));
        options_.path = plan.directory;
        options_.manifest = root_ + "/manifest";
        options_.processes = 3;
    }
    void TearDown() override { fs::remove_all(root_); }

    void spoil(const std::string& name) {
        const std::string path = options_.path + "/" + name;
        const auto size = fs::file_size(path);
        fs::resize_file(path, size - 1);
        fs::resize_file(path, size);  // its last byte is zero now
    }

    std::string root_;
    RunOptions options_;
};

TEST_F(Suites, SmallFilesReadsEveryFileButTheLargeOne) {
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_TRUE(metrics) << metrics.error().message;
    auto values = by_name(*metrics);
    EXPECT_EQ(values["files"], 50);
    EXPECT_GT(values["files_per_s"], 0);
    EXPECT_NEAR(values["mb_per_s"] * values["seconds"], 50 * 3000 / 1e6, 1e-9);
}

TEST_F(Suites, SmallFilesFindsWrongContent) {
    spoil("class_000/00000050.bin");
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite);
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_FALSE(metrics);
    EXPECT_NE(metrics.error().message.find("00000050.bin"), std::string::npos);
}

TEST_F(Suites, SmallFilesNamesAFileThatIsGone) {
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_TRUE(suite);
    fs::remove(options_.path + "/class_000/00000007.bin");
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_FALSE(metrics);
    EXPECT_EQ(metrics.error().code, ENOENT);
    EXPECT_NE(metrics.error().message.find("00000007.bin"), std::string::npos);
}

TEST_F(Suites, FileOutsideTheManifestIsRefused) {
    fs::copy_file(options_.path + "/class_000/00000007.bin", options_.path + "/other");
    EXPECT_FALSE(smallfiles_kind()->make(options_));
}

TEST_F(Suites, EmptyDirectoryIsAnError) {
    options_.samples.max_file = 10;
    const auto suite = smallfiles_kind()->make(options_);
    ASSERT_FALSE(suite);
    EXPECT_NE(suite.error().message.find("--max-file"), std::string::npos);
}

TEST_F(Suites, EpochCountsBatchesAndComputing) {
    options_.trainer.batch = 7;
    options_.trainer.compute_ms = 2;
    const auto suite = epoch_kind()->make(options_);
    ASSERT_TRUE(suite);
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_TRUE(metrics) << metrics.error().message;
    auto values = by_name(*metrics);
    EXPECT_EQ(values["steps"], 7);  // the fiftieth sample fills no batch
    EXPECT_GE(values["compute_s"], 7 * 0.002);
    EXPECT_GE(values["epoch_s"], values["compute_s"] + values["stall_s"] + values["barrier_s"]);
    EXPECT_NEAR(values["mb_per_s"] * values["epoch_s"], 49 * 3000 / 1e6, 1e-9);
    EXPECT_GT(values["au_percent"], 0);
    EXPECT_LE(values["au_percent"], values["au_net_percent"]);
}

TEST_F(Suites, EpochEndsWhenAWorkerFails) {
    spoil("class_000/00000020.bin");
    options_.trainer.batch = 4;
    options_.trainer.compute_ms = 0;
    const auto suite = epoch_kind()->make(options_);
    ASSERT_TRUE(suite);
    EXPECT_FALSE((*suite)->run(0, 1));
}

TEST_F(Suites, SeqRandPicksTheLargestFileAndChecksIt) {
    const auto suite = with(seqrand_kind(), {"--block-sizes", "64K"})->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ((*suite)->cases(),
              (std::vector<std::string>{"read-64k-buffered-pread", "randread-64k-buffered-pread"}));
    const auto metrics = (*suite)->run(0, 1);
    ASSERT_TRUE(metrics) << metrics.error().message;
    std::vector<std::string> names;
    for (const auto& metric : *metrics) names.push_back(metric.name);
    EXPECT_EQ(names, (std::vector<std::string>{"mb_per_s", "reads_per_s", "p50_us", "p99_us", "p999_us"}));
    auto values = by_name(*metrics);
    EXPECT_NEAR(values["mb_per_s"] / values["reads_per_s"], 5.0 / 77, 1e-9);  // 77 blocks
    EXPECT_GT(values["p50_us"], 0);
    EXPECT_GE(values["p99_us"], values["p50_us"]);
    EXPECT_GE(values["p999_us"], values["p99_us"]);
    spoil("big");
    for (std::size_t which = 0; which < 2; ++which) {
        const auto wrong = (*suite)->run(which, 1);
        ASSERT_FALSE(wrong);
        EXPECT_NE(wrong.error().message.find("big: its content is not what the manifest says"),
                  std::string::npos);
    }
}

TEST(WorkersTest, ReportTheErrorOfAChildAndItsDeath) {
    Workers failing(3, [](unsigned index) -> Result<void> {
        if (index == 1) return fail(ENXIO, "one is wrong");
        return {};
    });
    failing.release();
    const auto result = failing.wait();
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ENXIO);
    EXPECT_EQ(result.error().message, "one is wrong");
    Workers dying(1, [](unsigned) -> Result<void> {
        raise(SIGKILL);
        return {};
    });
    dying.release();
    const auto death = dying.wait();
    ASSERT_FALSE(death);
    EXPECT_NE(death.error().message.find("signal 9"), std::string::npos);
}

TEST(WorkersTest, ExceptionInAChildIsItsErrorAndEndsIt) {
    Workers throwing(1, [](unsigned) -> Result<void> { throw std::runtime_error("no memory left"); });
    throwing.release();
    const auto result = throwing.wait();
    ASSERT_FALSE(result);
    EXPECT_NE(result.error().message.find("no memory left"), std::string::npos);
}

TEST(WorkersTest, WaitAtTheGateUntilReleased) {
    Shared<int> count(1);
    Workers workers(4, [&](unsigned) -> Result<void> {
        __atomic_fetch_add(&count[0], 1, __ATOMIC_SEQ_CST);
        return {};
    });
    EXPECT_EQ(__atomic_load_n(&count[0], __ATOMIC_SEQ_CST), 0);
    workers.release();
    ASSERT_TRUE(workers.wait());
    EXPECT_EQ(count[0], 4);
}

}  // namespace suites_test
}  // namespace tierfs::iobench
