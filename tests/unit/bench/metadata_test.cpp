#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "bench/iobench/suites/names.hpp"
#include "bench/iobench/suites/suites.hpp"

namespace tierfs::iobench {
namespace metadata_test {

namespace fs = std::filesystem;

const std::vector<std::string> kReading = {"list", "stat", "find", "lookup", "open", "negative"};
const std::vector<std::string> kWriting = {"create", "rename", "unlink", "mkdir", "rmdir"};

/// 3 directories with 7 files each, one file beside them, and two symbolic links: 26 names.
class MetadataTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "iobench-names-XXXXXX").string();
        ASSERT_NE(mkdtemp(pattern.data()), nullptr);
        root_ = pattern;
        options_.path = root_ + "/data";
        options_.processes = 3;
        for (int i = 0; i < 3; ++i) {
            const std::string directory = options_.path + "/d" + std::to_string(i);
            fs::create_directories(directory);
            for (int j = 0; j < 7; ++j) std::ofstream(directory + "/f" + std::to_string(j)) << "content";
        }
        std::ofstream(options_.path + "/above") << "content";
        fs::create_directory_symlink("..", options_.path + "/d1/up");
        fs::create_symlink("nowhere", options_.path + "/dangling");
    }
    void TearDown() override { fs::remove_all(root_); }

    Result<std::unique_ptr<Suite>> make(std::vector<std::string> words = {}) {
        kind_ = metadata_kind();
        CLI::App app;
        kind_->add_options(app);
        std::reverse(words.begin(), words.end());  // as CLI11 takes them
        app.parse(words);
        return kind_->make(options_);
    }

    static Result<std::map<std::string, double>> run(Suite& suite, const std::string& name) {
        const auto cases = suite.cases();
        const auto at = std::find(cases.begin(), cases.end(), name);
        if (at == cases.end()) return fail(ENOENT, "there is no case " + name);
        auto metrics = suite.run(static_cast<std::size_t>(at - cases.begin()), 1);
        if (!metrics) return fail(metrics.error());
        std::map<std::string, double> values;
        for (const auto& metric : *metrics) values[metric.name] = metric.value;
        return values;
    }

    /// Every name with its time of change: what a measurement that only reads leaves as it is.
    std::map<std::string, fs::file_time_type> everything() {
        std::map<std::string, fs::file_time_type> found = {{"", fs::last_write_time(options_.path)}};
        for (const auto& entry : fs::recursive_directory_iterator(options_.path))
            found[entry.path()] = entry.is_symlink() ? fs::file_time_type() : entry.last_write_time();
        return found;
    }

    std::string root_;
    RunOptions options_;
    std::unique_ptr<SuiteKind> kind_;
};

TEST_F(MetadataTest, NamesOfEveryKindAreFoundAndLinksNotFollowed) {
    const auto tree = find_names(options_.path);
    ASSERT_TRUE(tree) << tree.error().message;
    EXPECT_EQ(tree->names, 3 + 21 + 1 + 2);
    EXPECT_EQ(tree->directories.size(), 4U);
    EXPECT_EQ(tree->directories.front(), options_.path);
    EXPECT_EQ(tree->files.size(), 22U);
    EXPECT_TRUE(std::is_sorted(tree->files.begin(), tree->files.end()));
}

TEST_F(MetadataTest, ReadingCasesCountEveryNameAndChangeNothing) {
    const auto before = everything();
    const auto suite = make();
    ASSERT_TRUE(suite) << suite.error().message;
    EXPECT_EQ((*suite)->cases(), kReading);
    for (const char* name : {"list", "stat", "find"}) {
        auto values = run(**suite, name);
        ASSERT_TRUE(values) << name << ": " << values.error().message;
        EXPECT_EQ((*values)["names"], 27) << name;
        EXPECT_EQ((*values)["directories"], 4) << name;
        EXPECT_NEAR((*values)["names_per_s"] * (*values)["seconds"], 27, 1e-6) << name;
    }
    for (const char* name : {"lookup", "open", "negative"}) {
        auto values = run(**suite, name);
        ASSERT_TRUE(values) << name << ": " << values.error().message;
        EXPECT_EQ((*values)["ops"], 22) << name;
        EXPECT_GT((*values)["p50_us"], 0) << name;
        EXPECT_GE((*values)["p99_us"], (*values)["p50_us"]) << name;
    }
    EXPECT_EQ(everything(), before);
}

TEST_F(MetadataTest, ListTellsTheLongestWaitForAFirstName) {
    const auto suite = make();
    ASSERT_TRUE(suite);
    auto values = run(**suite, "list");
    ASSERT_TRUE(values);
    EXPECT_GT((*values)["first_entry_ms"], 0);
    EXPECT_LE((*values)["first_entry_ms"], (*values)["seconds"] * 1e3);
}

TEST_F(MetadataTest, NamesLimitsWhatIsLookedUp) {
    const auto suite = make({"--names", "5"});
    ASSERT_TRUE(suite);
    for (const char* name : {"lookup", "open", "negative"}) {
        auto values = run(**suite, name);
        ASSERT_TRUE(values) << values.error().message;
        EXPECT_EQ((*values)["ops"], 5) << name;
    }
}

TEST_F(MetadataTest, OperationsPickCases) {
    const auto suite = make({"--operations", "open,list"});
    ASSERT_TRUE(suite);
    EXPECT_EQ((*suite)->cases(), (std::vector<std::string>{"list", "open"}));
    EXPECT_TRUE(run(**suite, "open"));
    const auto writing = make({"--operations", "create,list", "--write", "--write-names", "3"});
    ASSERT_TRUE(writing);
    EXPECT_EQ((*writing)->cases(), (std::vector<std::string>{"list", "create"}));
    EXPECT_TRUE(run(**writing, "create"));
    const auto refused = make({"--operations", "create"});
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("--write"), std::string::npos);
    EXPECT_THROW(make({"--operations", "fly"}), CLI::ParseError);
}

TEST_F(MetadataTest, MoreProcessesThanFilesIsFine) {
    options_.processes = 20;
    const auto suite = make({"--names", "2"});
    ASSERT_TRUE(suite);
    auto values = run(**suite, "open");
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_EQ((*values)["ops"], 2);
}

TEST_F(MetadataTest, ATreeThatChangesIsAnError) {
    const auto suite = make();
    ASSERT_TRUE(suite);
    std::ofstream(options_.path + "/d0/new") << "content";
    for (const char* name : {"list", "stat", "find"}) {
        const auto values = run(**suite, name);
        ASSERT_FALSE(values) << name;
        EXPECT_NE(values.error().message.find("has 28 names, had 27"), std::string::npos)
            << values.error().message;
    }
}

TEST_F(MetadataTest, AFileThatIsGoneIsNamed) {
    const auto suite = make();
    ASSERT_TRUE(suite);
    fs::remove(options_.path + "/d0/f3");
    for (const char* name : {"lookup", "open"}) {
        const auto values = run(**suite, name);
        ASSERT_FALSE(values) << name;
        EXPECT_EQ(values.error().code, ENOENT);
        EXPECT_NE(values.error().message.find("/data/d0/f3"), std::string::npos) << values.error().message;
    }
}

TEST_F(MetadataTest, AFileWithTheLongestNameIsNoHindrance) {
    std::ofstream(options_.path + "/" + std::string(255, 'n')) << "content";
    const auto suite = make();
    ASSERT_TRUE(suite);
    auto values = run(**suite, "negative");
    ASSERT_TRUE(values) << values.error().message;
    EXPECT_EQ((*values)["ops"], 23);
}

TEST_F(MetadataTest, ANameThatShouldNotExistAndDoesIsAnError) {
    const auto suite = make();
    ASSERT_TRUE(suite);
    // of the directory in which only "above" is, whose place in the shuffled order is not known here
    for (int i = 0; i < 22; ++i)
        std::ofstream(options_.path + "/.iobench-absent-1-" + std::to_string(i)) << "content";
    const auto values = run(**suite, "negative");
    ASSERT_FALSE(values);
    EXPECT_EQ(values.error().code, EEXIST);
}

TEST_F(MetadataTest, WritingCasesLeaveNothingBehind) {
    const auto suite = make({"--write", "--write-names", "11", "--write-size", "300"});
    ASSERT_TRUE(suite) << suite.error().message;
    auto all = kReading;
    all.insert(all.end(), kWriting.begin(), kWriting.end());
    EXPECT_EQ((*suite)->cases(), all);
    for (const auto& name : kWriting) {
        auto values = run(**suite, name);
        ASSERT_TRUE(values) << name << ": " << values.error().message;
        EXPECT_EQ((*values)["ops"], 33) << name;
        auto names = find_names(options_.path);
        ASSERT_TRUE(names);
        EXPECT_EQ(names->names, 27U) << name;
    }
}

TEST_F(MetadataTest, WritersThatAreKilledLeaveNothingBehind) {
    const auto suite = make({"--write", "--write-names", "10", "--write-size", "64K"});
    ASSERT_TRUE(suite);
    std::fflush(nullptr);  // a full buffer of ours would be written under the limit, and kill us
    rlimit before{};
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit small = before;
    small.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &small);  // whoever writes more dies of SIGXFSZ
    const auto values = run(**suite, "create");
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_FALSE(values);
    EXPECT_NE(values.error().message.find("died of signal"), std::string::npos) << values.error().message;
    const auto names = find_names(options_.path);
    ASSERT_TRUE(names);
    EXPECT_EQ(names->names, 27U);
}

TEST_F(MetadataTest, ADirectoryThatTakesNoFilesIsSaidBeforeAnythingIsMeasured) {
    options_.path = "/proc/self/fdinfo";  // holds regular files; root, too, makes none there
    const auto suite = make({"--write"});
    ASSERT_FALSE(suite);
    EXPECT_NE(suite.error().message.find("--write"), std::string::npos) << suite.error().message;
}

TEST_F(MetadataTest, WhatCannotBeMeasuredIsRefused) {
    options_.manifest = root_ + "/manifest";
    EXPECT_FALSE(make());
    options_.manifest.clear();
    options_.path = root_ + "/none";
    const auto missing = make();
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().code, ENOENT);
    fs::create_directory(options_.path);
    const auto empty = make();
    ASSERT_FALSE(empty);
    EXPECT_NE(empty.error().message.find("no file in it"), std::string::npos);
    EXPECT_TRUE(make({"--write", "--operations", "create,rmdir"})) << "they work on names of their own";
}

TEST_F(MetadataTest, ScratchIsRemovedByItsOwnerAlone) {
    const auto names = [&] { return find_names(options_.path).value().names; };
    {
        const auto scratch = Scratch::reserve(options_.path);
        ASSERT_TRUE(scratch);
        EXPECT_EQ(names(), 27U) << "it is not there before it is needed";
        Workers child(1, [&](unsigned) -> Result<void> {
            auto made = (*scratch)->make();
            fs::create_directories((*scratch)->path() + "/a/b");
            fs::create_directory_symlink(options_.path, (*scratch)->path() + "/a/link");
            _exit(made ? 0 : 1);  // killed, or ended without a word
        });
        child.release();
        ASSERT_TRUE(child.wait());
        EXPECT_EQ(names(), 31U);
    }
    EXPECT_EQ(names(), 27U) << "all of it, and nothing that a link in it leads to";
}

TEST_F(MetadataTest, ADirectoryThatIsAnothersIsNotRemoved) {
    std::string path;
    {
        const auto scratch = Scratch::reserve(options_.path);
        ASSERT_TRUE(scratch);
        path = (*scratch)->path();
        fs::create_directory(path);
        EXPECT_FALSE((*scratch)->make());
    }
    EXPECT_TRUE(fs::exists(path));
}

}  // namespace metadata_test
}  // namespace tierfs::iobench
