#include "config/log.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tierfs {
namespace {

class LogTest : public testing::Test {
  protected:
    void SetUp() override {
        std::string pattern = (std::filesystem::temp_directory_path() / "tierfs-log-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        directory_ = pattern;
        path_ = (directory_ / "log").string();
    }
    void TearDown() override {
        log::open(log::Level::info, "");
        std::filesystem::remove_all(directory_);
    }

    [[nodiscard]] std::string content() const {
        log::flush();
        std::ostringstream text;
        text << std::ifstream(path_).rdbuf();
        return text.str();
    }

    std::filesystem::path directory_;
    std::string path_;
};

TEST_F(LogTest, KeepsLinesFromTheLevelUp) {
    EXPECT_EQ(log::open(log::Level::info, path_), "");
    log::debug("quiet");
    log::info("spoken");
    EXPECT_EQ(content().find("quiet"), std::string::npos);
    EXPECT_NE(content().find("spoken"), std::string::npos);
}

TEST_F(LogTest, OneEventIsOneLine) {
    log::open(log::Level::info, path_);
    log::info("name 'a\nb\x1b[31m'");
    const std::string text = content();
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_NE(text.find("\\x0a"), std::string::npos);
}

TEST_F(LogTest, FloodsOfErrorsAreCutShort) {
    log::open(log::Level::info, path_);
    for (int i = 0; i < 10'000; ++i) log::error("the same again");
    const std::string text = content();
    EXPECT_LT(std::count(text.begin(), text.end(), '\n'), 1000);
    EXPECT_GE(std::count(text.begin(), text.end(), '\n'), 5);
}

TEST_F(LogTest, AnUnwritableFileIsSaid) {
    std::ofstream(directory_ / "file") << "in the way";
    EXPECT_NE(log::open(log::Level::info, (directory_ / "file" / "log").string()), "");
    log::info("goes to standard error");
}

}  // namespace
}  // namespace tierfs
