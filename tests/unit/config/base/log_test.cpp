#include "config/base/log.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "config/base/log_file.hpp"
#include "config/base/log_form.hpp"
#include "config/base/log_lines.hpp"

namespace tierfs {
namespace log_test {

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

TEST(ConfigLogForm, JsonLinesAreValidForAnyBytes) {
    const auto line = [](std::string_view message) {
        const std::chrono::system_clock::time_point time{std::chrono::microseconds(951782400'000042)};
        return log::json_line(time, log::Level::warning, 77, message);
    };
    EXPECT_EQ(line("a \"b\" \\ \n\x01"),
              R"({"time":"2000-02-29T00:00:00.000042Z","level":"warning","pid":77,)"
              R"("message":"a \"b\" \\ \n\u0001"})");
    EXPECT_EQ(log::json_line({}, log::Level::error, 1, "m", {"/mnt", "s3://b"}, {"a/b", EIO}),
              R"({"time":"1970-01-01T00:00:00.000000Z","level":"error","pid":1,"message":"m",)"
              R"("mountpoint":"/mnt","source":"s3://b","path":"a/b","errno":"EIO"})");
    const auto message = [&](std::string_view text) {
        const auto whole = line(text);
        const auto begin = whole.find("message\":\"") + 10;
        return whole.substr(begin, whole.size() - 2 - begin);
    };
    for (const std::string good :
         {"gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT_EQ(message(good), good);
    const std::string other = "\xef\xbf\xbd";
    EXPECT_EQ(message("\xff"), other);
    EXPECT_EQ(message("\xc3"), other) << "cut off";
    EXPECT_EQ(message("\xc3\""), other + "\\\"") << "the quote is no part of it";
    EXPECT_EQ(message("\xe2\x82"), other) << "one character, cut off";
    EXPECT_EQ(message("\xc0\xaf"), other + other) << "longer than need be";
    EXPECT_EQ(message("\xed\xa0\x80"), other + other + other) << "a surrogate";
    EXPECT_EQ(message("\xf4\x90\x80\x80"), other + other + other + other) << "beyond the last character";
    EXPECT_EQ(message(std::string_view("\0", 1)), "\\u0000");
}

TEST(ConfigLogForm, TheJournalIsKnownByItsDeviceAndInode) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    struct stat found {};
    ASSERT_EQ(::fstat(ends[1], &found), 0);
    const auto stream = std::to_string(found.st_dev) + ":" + std::to_string(found.st_ino);
    EXPECT_TRUE(log::is_journal(ends[1], stream.c_str()));
    for (const std::string& other : {std::string(), stream + "1", "1" + stream, std::string("8:1")})
        EXPECT_FALSE(log::is_journal(ends[1], other.c_str())) << other;
    EXPECT_FALSE(log::is_journal(ends[1], nullptr));
    ::close(ends[0]);
    ::close(ends[1]);
    EXPECT_FALSE(log::is_journal(ends[1], stream.c_str()));
}

TEST_F(ConfigLogFile, JsonGoesThroughToTheFile) {
    const std::string file = folder_ + "/json";
    ASSERT_EQ(log::open(log::Level::info, file, log::Form::json), "");
    log::info("one \"\n\xff");
    const auto lines = text(file);
    EXPECT_EQ(lines.find("{\"time\":\""), 0U) << lines;
    EXPECT_NE(lines.find(R"("pid":)" + std::to_string(::getpid())), std::string::npos) << lines;
    EXPECT_NE(lines.find("one \\\"\\\\n\xef\xbf\xbd\"}\n"), std::string::npos) << lines;
}

TEST_F(ConfigLogFile, AFullFileIsPutAside) {
    const std::string path = folder_ + "/log";
    const log::LogFile::Clock::time_point now{std::chrono::hours(1)};
    log::LogFile file(path, 10);
    file.write("0123456789\n", now);
    EXPECT_EQ(text(path), "0123456789\n");
    file.write("next\n", now);
    EXPECT_EQ(text(path + ".1"), "0123456789\n");
    EXPECT_EQ(text(path), "next\n");
    file.write("and more of it\n", now);
    file.write("still\n", now);
    EXPECT_EQ(text(path), "next\nand more of it\nstill\n") << "at most once a second";
    file.write("later\n", now + std::chrono::seconds(1));
    EXPECT_EQ(text(path + ".1"), "next\nand more of it\nstill\n");
    EXPECT_EQ(text(path), "later\n");
}

// As a supervisor and its daemon do.
TEST_F(ConfigLogFile, OfTwoProcessesOnePutsItAside) {
    const std::string path = folder_ + "/log";
    const log::LogFile::Clock::time_point now{std::chrono::hours(1)};
    log::LogFile one(path, 10), other(path, 10);
    one.write("0123456789\n", now);
    other.write("x\n", now);  // sees that it is full
    one.write("y\n", now);    // is told so by its own count, and finds it gone
    EXPECT_EQ(text(path + ".1"), "0123456789\n");
    EXPECT_EQ(text(path), "x\ny\n");
}

TEST_F(ConfigLogFile, FollowsWhoMovesItsFileAway) {
    const std::string path = folder_ + "/log";
    const log::LogFile::Clock::time_point now{std::chrono::hours(1)};
    log::LogFile file(path, 0);
    file.write("one\n", now);
    std::filesystem::rename(path, path + "-old");
    file.write("two\n", now);
    file.write("three\n", now + std::chrono::seconds(1));
    EXPECT_EQ(text(path + "-old"), "one\ntwo\n");
    EXPECT_EQ(text(path), "three\n");
    std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);  // cannot be written: what was open stays
    file.write("four\n", now + std::chrono::seconds(2));
    std::filesystem::remove_all(path);
    file.write("five\n", now + std::chrono::seconds(3));
    EXPECT_EQ(text(path), "five\n");
}

TEST_F(ConfigLogFile, StandardErrorFollows) {
    const std::string path = folder_ + "/log";
    const log::LogFile::Clock::time_point now{std::chrono::hours(1)};
    log::LogFile file(path, 4);
    const int before = ::dup(STDERR_FILENO);
    const int into = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
    ::dup2(into, STDERR_FILENO);
    file.write("full\n", now);
    file.write("next\n", now);
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, "said\n", 5);
    ::dup2(before, STDERR_FILENO);
    ::close(before);
    ::close(into);
    EXPECT_EQ(text(path), "next\nsaid\n");
}

TEST_F(ConfigLogFile, WhatIsNoFileIsNeverPutAside) {
    const log::LogFile::Clock::time_point now{std::chrono::hours(1)};
    const std::string path = folder_ + "/log", target = folder_ + "/target";
    std::filesystem::create_symlink(target, path);
    log::LogFile file(path, 4);
    for (int second = 0; second < 3; ++second) file.write("line\n", now + std::chrono::seconds(second));
    EXPECT_EQ(text(target), "line\nline\nline\n");
    EXPECT_TRUE(std::filesystem::is_symlink(path));
    EXPECT_FALSE(std::filesystem::exists(path + ".1"));
}

}  // namespace log_test
}  // namespace tierfs
