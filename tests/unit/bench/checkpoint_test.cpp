#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/iobench/suites/checkpoint_rank.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {
namespace checkpoint_test {

namespace fs = std::filesystem;

std::unique_ptr<SuiteKind> with(std::vector<std::string> words) {
    auto kind = checkpoint_kind();
    CLI::App app;
    kind->add_options(app);
    std::reverse(words.begin(), words.end());  // as CLI11 takes them
    app.parse(words);
    return kind;
}

/// The bytes that a process may write into a file; as it was at the end.
class FileSizeLimit {
  public:
    explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
        getrlimit(RLIMIT_FSIZE, &before_);
        const rlimit limited{bytes, before_.rlim_max};
        setrlimit(RLIMIT_FSIZE, &limited);
    }
    ~FileSizeLimit() {
        setrlimit(RLIMIT_FSIZE, &before_);
        static_cast<void>(std::signal(SIGXFSZ, handler_));
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

  private:
    rlimit before_{};
    void (*handler_)(int);
};

class CheckpointTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-test-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        options_.path = pattern;
        plan_ = {options_.path, 3, 100'001, 8192, 5};
    }
    void TearDown() override { fs::remove_all(options_.path); }

    Result<void> write(const RankPlan& plan) {
        RankTimes times;
        return write_rank(plan, times, [] {});
    }
    Result<void> read(const RankPlan& plan) {
        RankTimes times;
        return read_rank(plan, times, [] {});
    }

    RunOptions options_;
    RankPlan plan_;
};

TEST_F(CheckpointTest, RunMeasuresAndLeavesNothing) {
    const auto suite =
        with({"--checkpoint-ranks", "3", "--checkpoint-size", "1000001", "--chunk", "64K"})->make(options_);
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ((*suite)->cases(), std::vector<std::string>{"ranks-3"});
    for (const std::uint64_t seed : {1, 2}) {
        const auto metrics = (*suite)->run(0, seed);
        ASSERT_TRUE(metrics) << metrics.error().message;
        std::map<std::string, double> values;
        for (const auto& metric : *metrics) values[metric.name] = metric.value;
        EXPECT_NEAR(values["write_mb_per_s"] * values["write_s"], 1.000001, 1e-6);
        EXPECT_NEAR(values["read_mb_per_s"] * values["read_s"], 1.000001, 1e-6);
        EXPECT_LE(values["fsync_s"], values["write_s"]);
        EXPECT_GT(values["write_total_mb_per_s"], 0);
        EXPECT_GE(values["read_total_mb_per_s"], 0);
        EXPECT_TRUE(fs::is_empty(options_.path));
    }
}

TEST_F(CheckpointTest, RankIsWrittenWholeUnderItsNameAndReadBack) {
    RankTimes times;
    bool begun = false;
    ASSERT_TRUE(write_rank(plan_, times, [&] {
        begun = true;
        EXPECT_TRUE(fs::is_empty(options_.path));
    }));
    EXPECT_TRUE(begun);
    EXPECT_GT(times.ended, times.started);
    EXPECT_EQ(fs::file_size(options_.path + "/rank_0003"), 100'001U);
    EXPECT_EQ(std::distance(fs::directory_iterator(options_.path), {}), 1);
    EXPECT_TRUE(read(plan_));
}

TEST_F(CheckpointTest, EveryWrongByteIsFound) {
    ASSERT_TRUE(write(plan_));
    for (const std::uint64_t at : {0, 1, 7, 8, 4095, 4096, 8191, 8192, 50'000, 98'304, 100'000}) {
        std::fstream file(rank_file(plan_), std::ios::in | std::ios::out | std::ios::binary);
        char byte = 0;
        file.seekg(static_cast<std::streamoff>(at)).get(byte);
        file.seekp(static_cast<std::streamoff>(at)).put(static_cast<char>(byte ^ 1)).flush();
        const auto wrong = read(plan_);
        ASSERT_FALSE(wrong) << at;
        EXPECT_EQ(wrong.error().code, EIO);
        EXPECT_NE(wrong.error().message.find("first at byte " + std::to_string(at)), std::string::npos)
            << wrong.error().message;
        file.seekp(static_cast<std::streamoff>(at)).put(byte).flush();
    }
    EXPECT_TRUE(read(plan_));
}

TEST_F(CheckpointTest, OtherPlacesRanksAndRunsHaveOtherContent) {
    ASSERT_TRUE(write(plan_));
    RankPlan other = plan_;
    other.seed = 6;
    EXPECT_FALSE(read(other));
    other = plan_;
    other.rank = 4;
    fs::copy_file(rank_file(plan_), rank_file(other));
    EXPECT_FALSE(read(other));
    Pattern pattern(plan_);
    const auto first = pattern.at(0);
    const std::vector<std::byte> page(first.begin(), first.begin() + 4096);
    EXPECT_NE(pattern.first_difference(8192, pattern.at(0)), 8191);
    EXPECT_FALSE(std::equal(page.begin(), page.end(), pattern.at(8192).begin()));
}

TEST_F(CheckpointTest, ShorterLongerAndMissingFilesAreFound) {
    ASSERT_TRUE(write(plan_));
    fs::resize_file(rank_file(plan_), 100'000);
    EXPECT_NE(read(plan_).error().message.find("ends at byte 100000"), std::string::npos);
    fs::remove(rank_file(plan_));
    EXPECT_EQ(read(plan_).error().code, ENOENT);
    ASSERT_TRUE(write(plan_));
    fs::resize_file(rank_file(plan_), 100'002);
    EXPECT_NE(read(plan_).error().message.find("has 100002 bytes"), std::string::npos);
}

TEST_F(CheckpointTest, FailedWriteIsReportedAndLeavesNothing) {
    const auto suite =
        with({"--checkpoint-ranks", "2", "--checkpoint-size", "1M", "--chunk", "64K"})->make(options_);
    ASSERT_TRUE(suite);
    {
        const FileSizeLimit limit(300'000);
        const auto metrics = (*suite)->run(0, 1);
        ASSERT_FALSE(metrics);
        EXPECT_EQ(metrics.error().code, EFBIG);
        EXPECT_NE(metrics.error().message.find("rank_000"), std::string::npos) << metrics.error().message;
    }
    EXPECT_TRUE(fs::is_empty(options_.path));
    EXPECT_TRUE((*suite)->run(0, 1));
}

TEST_F(CheckpointTest, WhatCannotBeIsRefusedBeforeTheRun) {
    const auto refused = [&](std::vector<std::string> words, const std::string& reason) {
        const auto suite = with(std::move(words))->make(options_);
        ASSERT_FALSE(suite) << reason;
        EXPECT_NE(suite.error().message.find(reason), std::string::npos) << suite.error().message;
    };
    refused({"--checkpoint-size", "0"}, "--checkpoint-size");
    refused({"--chunk", "1000"}, "--chunk");
    refused({"--chunk", "0"}, "--chunk");
    refused({"--checkpoint-size", "500T", "--checkpoint-ranks", "4096"}, "bytes are free");
    EXPECT_TRUE(fs::is_empty(options_.path));
    options_.path += "/none";
    refused({}, "no directory can be made in it");
    EXPECT_THROW(with({"--checkpoint-ranks", "0"}), CLI::ParseError);
}

}  // namespace checkpoint_test
}  // namespace tierfs::iobench
