#include "config/log.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "config/log_lines.hpp"

namespace tierfs {
namespace {

TEST(ConfigLog, ControlCharactersAreEscaped) {
    EXPECT_EQ(log::escaped("a\nb\r\x1b[31m\t\x7f"), "a\\nb\\x0d\\x1b[31m\\t\\x7f");
    EXPECT_EQ(log::escaped("\xc2\x9b"
                           "1m"),
              "\\xc2\\x9b1m");
    EXPECT_EQ(log::escaped("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
}

TEST(ConfigLog, FiveLinesASecond) {
    log::LineLimit limit;
    const auto start = log::LineLimit::Clock::now();
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(limit.admit(start));
    for (int i = 0; i < 3; ++i) EXPECT_FALSE(limit.admit(start));
    EXPECT_EQ(limit.take_left_out(start), 0U);
    EXPECT_EQ(limit.take_left_out(start + std::chrono::seconds(1)), 3U);
    EXPECT_EQ(limit.take_left_out(start + std::chrono::seconds(1)), 0U);
    EXPECT_TRUE(limit.admit(start + std::chrono::seconds(1)));
}

class ConfigLogFile : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = "/tmp/tierfs_log_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        log::open(log::Level::info, "");
        std::filesystem::remove_all(folder_);
    }
    static std::string text(const std::string& file) {
        std::ostringstream out;
        out << std::ifstream(file).rdbuf();
        return out.str();
    }
    std::string folder_;
};

TEST_F(ConfigLogFile, LevelsEscapesAndThreads) {
    const std::string file = folder_ + "/log";
    ASSERT_EQ(log::open(log::Level::info, file), "");
    EXPECT_FALSE(log::enabled(log::Level::debug));
    log::debug("hidden");
    std::thread other([] { log::info("evil\nERROR {} forged"); });
    other.join();
    for (int i = 0; i < 100; ++i) log::error("broken");
    log::flush();
    const std::string lines = text(file);
    EXPECT_EQ(lines.find("hidden"), std::string::npos);
    EXPECT_NE(lines.find("evil\\nERROR {} forged"), std::string::npos);
    EXPECT_NE(lines.find("more lines left out"), std::string::npos);
    EXPECT_EQ(lines.find('\x1b'), std::string::npos);
}

TEST_F(ConfigLogFile, AnUnwritableFileIsTold) {
    EXPECT_NE(log::open(log::Level::info, folder_).find("log.file"), std::string::npos);
    log::info("still here");
}

TEST_F(ConfigLogFile, OpensAgainInAChild) {
    const std::string file = folder_ + "/child";
    ASSERT_EQ(log::open(log::Level::info, folder_ + "/parent"), "");
    log::flush();
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const bool good = log::open(log::Level::info, file).empty();
        log::info("from the child");
        log::flush();
        _exit(good ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_NE(text(file).find("from the child"), std::string::npos);
}

}  // namespace
}  // namespace tierfs
