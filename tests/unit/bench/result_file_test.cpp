#include "bench/iobench/run/result_file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>

namespace tierfs::iobench {
namespace result_file_test {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

ResultFile example() {
    ResultFile file;
    file.tierfs = "0.1.0";
    file.command = {"iobench", "run", "--suite", "smallfiles"};
    file.started = "2026-01-31T12:00:00Z";
    file.ended = "2026-01-31T12:01:00Z";
    file.complete = true;
    file.suite = "smallfiles";
    file.preset = "resnet50";
    file.parameters = {{"runs", 3}};
    file.dataset_rule = "page cache dropped before each run";
    file.host = {{"kernel", "Linux 6.1"}};
    file.targets = {{.name = "tierfs",
                     .path = "/mnt/x",
                     .fs_type = "fuse.tierfs",
                     .fs_source = "s3://b/p",
                     .mount_point = "/mnt/x",
                     .mount_options = "ro,nosuid",
                     .device = ResultDevice{"loop0", "", 2100.5},
                     .daemon = ResultDaemon{7, "tierfs", 1 << 28, 1.5, 0.25}},
                    {.name = "xfs",
                     .path = "/data",
                     .fs_type = "xfs",
                     .fs_source = "/dev/loop1",
                     .mount_point = "/data",
                     .mount_options = "rw",
                     .device = {},
                     .daemon = {}}};
    for (const auto* target : {"tierfs", "xfs"})
        file.figures.push_back({.target = target,
                                .test = "shuffled",
                                .metric = "mb_per_s",
                                .unit = "MB/s",
                                .better = Better::higher,
                                .values = {1, 2, 300},
                                .summary = summarize({1, 2, 300}),
                                .share_of_peak = 0.5});
    file.disturbances = {{.target = "xfs", .test = "shuffled", .what = "load", .run = 2}};
    file.warnings = {"a warning"};
    return file;
}

/// The message of reading the example after `change`.
std::string error_after(const std::function<void(Json&)>& change) {
    Json json = to_json(example());
    change(json);
    const auto read = iobench::from_json(json, "r.json");
    return read ? "" : read.error().message;
}

class ResultFileTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-result-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
    }
    void TearDown() override { fs::remove_all(root_); }

    std::string with_text(const std::string& text) {
        std::string path = root_ + "/r.json";
        std::ofstream(path) << text;
        return path;
    }
    std::string root_;
};

TEST_F(ResultFileTest, ReadsWhatWasWritten) {
    const std::string path = root_ + "/r.json";
    ASSERT_TRUE(write_result(path, example()));
    const auto read = read_result(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, example());
    EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1) << "a temporary file was left";
}

TEST_F(ResultFileTest, IsReadThroughASymbolicLink) {
    ASSERT_TRUE(write_result(root_ + "/r.json", example()));
    fs::create_symlink("r.json", root_ + "/latest.json");
    const auto read = read_result(root_ + "/latest.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, example());
}

TEST_F(ResultFileTest, HasTheMembersThatScriptsRead) {
    const Json json = to_json(example());
    EXPECT_EQ(json["format"], "iobench");
    EXPECT_EQ(json["version"], 1);
    EXPECT_EQ(json["targets"][0]["device"]["model"], nullptr);
    EXPECT_EQ(json["targets"][1]["daemon"], nullptr);
    EXPECT_EQ(json["figures"][1]["case"], "shuffled");
    EXPECT_EQ(json["figures"][1]["better"], "higher");
    EXPECT_EQ(json["figures"][1]["outliers"], Json::array());
    EXPECT_EQ(json["disturbances"][0]["run"], 2);
}

TEST_F(ResultFileTest, OldResultStaysWhenTheNewOneCannotBeWritten) {
    EXPECT_FALSE(write_result(root_ + "/none/r.json", example()));
    EXPECT_FALSE(fs::exists(root_ + "/none"));
}

TEST_F(ResultFileTest, PathsThatAreNotUtf8AreWrittenAnyhow) {
    ResultFile file = example();
    file.targets[0].path = "/mnt/\xff\xfe";
    const std::string path = root_ + "/r.json";
    ASSERT_TRUE(write_result(path, file));
    EXPECT_TRUE(read_result(path));
}

TEST_F(ResultFileTest, WhatIsNoResultIsRefused) {
    for (const auto* text : {"", "{", "nonsense", "\xff", "{\"format\":1e999}"}) {
        const auto read = read_result(with_text(text));
        ASSERT_FALSE(read) << text;
        EXPECT_NE(read.error().message.find("r.json: is not JSON"), std::string::npos)
            << read.error().message;
    }
    for (const auto* text : {"[]", "3", "null", "{}", "{\"format\":\"other\",\"version\":1}"})
        EXPECT_FALSE(read_result(with_text(text))) << text;
    EXPECT_FALSE(read_result(root_));
    EXPECT_FALSE(read_result(root_ + "/none"));
    ASSERT_EQ(mkfifo((root_ + "/pipe").c_str(), 0600), 0);
    EXPECT_FALSE(read_result(root_ + "/pipe"));
    EXPECT_FALSE(read_result(with_text(std::string(100'000, '['))));
}

TEST_F(ResultFileTest, FileThatIsTooLargeIsRefusedUnread) {
    const std::string path = with_text("{}");
    fs::resize_file(path, (256ULL << 20) + 1);
    const auto read = read_result(path);
    ASSERT_FALSE(read);
    EXPECT_EQ(read.error().code, EFBIG);
}

TEST(ResultFileErrors, NameFileAndMember) {
    EXPECT_EQ(error_after([](Json& json) { json["format"] = "other"; }),
              "r.json: format: is not \"iobench\": no result of iobench run");
    EXPECT_EQ(error_after([](Json& json) { json["version"] = 2; }),
              "r.json: version: is 2; this iobench reads version 1");
    EXPECT_EQ(error_after([](Json& json) { json["version"] = "1"; }),
              "r.json: version: is not a whole number of at least 0");
    EXPECT_EQ(error_after([](Json& json) { json.erase("suite"); }), "r.json: suite: is missing");
    EXPECT_EQ(error_after([](Json& json) { json["complete"] = 1; }),
              "r.json: complete: is neither true nor false");
    EXPECT_EQ(error_after([](Json& json) { json["command"][1] = 5; }), "r.json: command[1]: is not a string");
    EXPECT_EQ(error_after([](Json& json) { json["host"] = Json::array(); }),
              "r.json: host: is not an object");
    EXPECT_EQ(error_after([](Json& json) { json["targets"] = Json::object(); }),
              "r.json: targets: is not a list");
    EXPECT_EQ(error_after([](Json& json) { json["targets"][0] = 3; }),
              "r.json: targets[0]: is not an object");
    EXPECT_EQ(error_after([](Json& json) { json["targets"][0]["daemon"]["peak_rss_bytes"] = -1; }),
              "r.json: targets[0].daemon.peak_rss_bytes: is not a whole number of at least 0");
    EXPECT_EQ(error_after([](Json& json) { json["targets"][0]["device"]["peak_mb_per_s"] = "fast"; }),
              "r.json: targets[0].device.peak_mb_per_s: is not a finite number");
}

TEST(ResultFileErrors, NameTheFigure) {
    EXPECT_EQ(error_after([](Json& json) { json["figures"][1]["values"][2] = nullptr; }),
              "r.json: figures[1].values[2]: is not a finite number");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][1]["values"][2] = NAN; }),
              "r.json: figures[1].values[2]: is not a finite number");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["values"] = Json::array(); }),
              "r.json: figures[0].values: is empty");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["better"] = "faster"; }),
              "r.json: figures[0].better: is none of higher, lower, neither");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["ci95"] = {1}; }),
              "r.json: figures[0].ci95: is not a list of two numbers");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0].erase("p95"); }),
              "r.json: figures[0].p95: is missing");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["outliers"] = {3}; }),
              "r.json: figures[0].outliers[0]: is no index of values");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["target"] = "other"; }),
              "r.json: figures[0].target: is the name of no target");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][1]["target"] = "tierfs"; }),
              "r.json: figures[1]: has the target, case and metric of another figure");
    EXPECT_EQ(error_after([](Json& json) { json["targets"][1]["name"] = "tierfs"; }),
              "r.json: targets[1].name: stands there twice");
}

TEST(ResultFileErrors, WhatScriptsAddIsNone) {
    EXPECT_EQ(error_after([](Json& json) { json["more"] = 1; }), "");
    EXPECT_EQ(error_after([](Json& json) { json["figures"][0]["more"] = 1; }), "");
}

TEST(ResultFileErrors, FigureOfAScriptIsSummarizedByTheReader) {
    Json json = to_json(example());
    json["figures"].push_back({{"target", "xfs"},
                               {"case", "shuffled"},
                               {"metric", "requests"},
                               {"unit", "requests"},
                               {"better", "lower"},
                               {"values", {30, 10, 20}}});
    const auto read = iobench::from_json(json, "r.json");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->figures.back().summary, summarize({30, 10, 20}));
    EXPECT_EQ(read->figures.back().share_of_peak, std::nullopt);
}

TEST(UnitOf, IsTheEndOfTheName) {
    EXPECT_EQ(unit_of("files_per_s"), "files/s");
    EXPECT_EQ(unit_of("mb_per_s"), "MB/s");
    EXPECT_EQ(unit_of("seq_mb_per_s"), "MB/s");
    EXPECT_EQ(unit_of("rand_reads_per_s"), "reads/s");
    EXPECT_EQ(unit_of("seconds"), "s");
    EXPECT_EQ(unit_of("stall_s"), "s");
    EXPECT_EQ(unit_of("rand_p99_us"), "us");
    EXPECT_EQ(unit_of("au_percent"), "%");
    EXPECT_EQ(unit_of("files"), "files");
    EXPECT_EQ(unit_of(""), "");
    EXPECT_EQ(unit_of("_s"), "s");
}

}  // namespace result_file_test
}  // namespace tierfs::iobench
