#include "fs/commands/commands.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace commands_test {

using Strings = std::vector<std::string>;

int run(Strings words) {
    std::vector<char*> arguments;
    for (auto& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    return run_command_line(static_cast<int>(words.size()), arguments.data());
}

TEST(SplitOptions, SplitsAtCommasThatAreNotEscaped) {
    EXPECT_EQ(split_options("ro,a=b\\,c,,d\\\\"), (Strings{"ro", "a=b,c", "d\\"}));
    EXPECT_EQ(split_options(""), Strings{});
    EXPECT_EQ(split_options("x\\"), Strings{"x\\"});
}

TEST(CommandLine, TellsWrongUsageFromFailure) {
    EXPECT_EQ(run({"tierfs"}), 2);
    EXPECT_EQ(run({"tierfs", "nonsense", "/mnt"}), 2);
    EXPECT_EQ(run({"tierfs", "umount"}), 2);
    EXPECT_EQ(run({"tierfs", "status", "/", "--nonsense"}), 2);
    EXPECT_EQ(run({"tierfs", "/source/only"}), 2);
    EXPECT_EQ(run({"tierfs", "/a", "/b", "-o", "no.such.key=1"}), 2);
    EXPECT_EQ(run({"tierfs", "status", "/nonexistent/mount"}), 1);
    EXPECT_EQ(run({"tierfs", "umount", "/tmp"}), 1);
    EXPECT_EQ(run({"tierfs", "config", "--check", "/nonexistent.yaml"}), 1);
}

TEST(CommandLine, WhatFailedIsOneLineThatCannotSteerATerminal) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(command_failed("reading evil\x1b]0;owned\x07\ntierfs: all is well\xc2\x9b failed"), 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              "tierfs: reading evil\\x1b]0;owned\\x07\\ntierfs: all is well\\xc2\\x9b failed\n");
}

TEST(CommandLine, EachProblemOfTheSettingsHasItsLine) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(settings_refused({EINVAL, "one: \x1b[2J\ntwo"}), 2);
    EXPECT_EQ(settings_refused({EIO, "three"}), 1);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "tierfs: one: \\x1b[2J\ntwo\ntierfs: three\n");
}

TEST(CommandLine, HelpsAndNamesItsVersion) {
    EXPECT_EQ(run({"tierfs", "--help"}), 0);
    EXPECT_EQ(run({"tierfs", "--version"}), 0);
    EXPECT_EQ(run({"tierfs", "status", "--help"}), 0);
    EXPECT_EQ(run({"tierfs", "config", "--defaults"}), 0);
}

TEST(CommandLine, IsAHelperOfMountByName) {
    EXPECT_EQ(run({"/sbin/mount.tierfs", "/a", "/b", "-f", "-n", "-v", "-s", "-o", "ro"}), 0);
    EXPECT_EQ(run({"/sbin/mount.fuse.tierfs", "/a"}), 2);
}

}  // namespace commands_test
}  // namespace tierfs
