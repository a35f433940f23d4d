#include "config/base/fault_point.hpp"

#if TIERFS_TEST_POINTS

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

namespace tierfs::fault {
namespace fault_point_test {

class FaultPoint : public ::testing::Test {
  protected:
    ~FaultPoint() override { configure("", ""); }

    /// What the next `count` hits of the point say.
    static std::vector<int> hits(int count) {
        std::vector<int> codes;
        for (int i = 0; i < count; ++i) codes.push_back(TIERFS_FAULT("test.one"));
        return codes;
    }
};

TEST_F(FaultPoint, DoesNothingWithoutRules) {
    EXPECT_EQ(hits(3), (std::vector<int>{0, 0, 0}));
    EXPECT_EQ(TIERFS_FAULT_SHORT(100U), 100U);
}

TEST_F(FaultPoint, TheNthHitFails) {
    ASSERT_EQ(configure("test.one:2:error=ENOSPC", ""), "");
    EXPECT_EQ(hits(4), (std::vector<int>{0, ENOSPC, 0, 0}));
}

TEST_F(FaultPoint, AllHitsFromTheNthFail) {
    ASSERT_EQ(configure("test.one:2+:error=5", ""), "");
    EXPECT_EQ(hits(4), (std::vector<int>{0, EIO, EIO, EIO}));
}

TEST_F(FaultPoint, EveryNthHitFails) {
    ASSERT_EQ(configure("test.one:/3:error=EIO", ""), "");
    EXPECT_EQ(hits(6), (std::vector<int>{0, 0, EIO, 0, 0, EIO}));
}

TEST_F(FaultPoint, APercentageIsTheSameForTheSameSeed) {
    ASSERT_EQ(configure("test.one:30%7:error=EIO", ""), "");
    const auto first = hits(1000);
    const auto failed = std::count(first.begin(), first.end(), EIO);
    EXPECT_GT(failed, 200);
    EXPECT_LT(failed, 400);
    ASSERT_EQ(configure("test.one:30%7:error=EIO", ""), "");
    EXPECT_EQ(hits(1000), first);
    ASSERT_EQ(configure("test.one:30%8:error=EIO", ""), "");
    EXPECT_NE(hits(1000), first);
}

TEST_F(FaultPoint, OtherPointsAreLeftAlone) {
    ASSERT_EQ(configure("test.one:1+:error=EIO", ""), "");
    EXPECT_EQ(TIERFS_FAULT("test.two"), 0);
}

TEST_F(FaultPoint, AStarMeansAllThatBeginSo) {
    ASSERT_EQ(configure("test.*:1+:error=EIO", ""), "");
    EXPECT_EQ(TIERFS_FAULT("test.one"), EIO);
    EXPECT_EQ(TIERFS_FAULT("test.two"), EIO);
}

TEST_F(FaultPoint, ACallFailsUndoneWithItsErrno) {
    ASSERT_EQ(configure("test.one:1:error=EACCES", ""), "");
    int calls = 0;
    const auto call = [&] { return ++calls; };
    errno = 0;
    EXPECT_EQ(TIERFS_FAULT_CALL("test.one", call()), -1);
    EXPECT_EQ(errno, EACCES);
    EXPECT_EQ(calls, 0);
    EXPECT_EQ(TIERFS_FAULT_CALL("test.one", call()), 1);
}

TEST_F(FaultPoint, ShortHalvesOneSize) {
    ASSERT_EQ(configure("test.one:1:short", ""), "");
    EXPECT_EQ(TIERFS_FAULT("test.one"), 0);
    EXPECT_EQ(TIERFS_FAULT_SHORT(20480U), 8192U) << "whole sectors: direct I/O takes no less";
    EXPECT_EQ(TIERFS_FAULT_SHORT(20480U), 20480U);
}

TEST_F(FaultPoint, AShortOneIsNotLeftForAnotherCall) {
    ASSERT_EQ(configure("test.one:1:short", ""), "");
    EXPECT_EQ(TIERFS_FAULT("test.one"), 0);
    EXPECT_EQ(TIERFS_FAULT("test.two"), 0);
    EXPECT_EQ(TIERFS_FAULT_SHORT(100U), 100U);
}

TEST_F(FaultPoint, KillAndTearEndTheProcess) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto killed = ::testing::KilledBySignal(SIGKILL);
    EXPECT_EXIT(
        {
            configure("test.one:2:kill", "");
            hits(2);
        },
        killed, "");
    EXPECT_EXIT(
        {
            configure("test.one:1:tear", "");
            hits(1);
            if (TIERFS_FAULT_SHORT(100U) == 50U) TIERFS_FAULT("test.two");
        },
        killed, "");
}

TEST_F(FaultPoint, WhatMakesNoSenseIsRefusedInWords) {
    for (const char* rules :
         {"test.none:1:error=EIO", "test.one", "test.one:1", "test.one:0:kill", "test.one:x:kill",
          "test.one:1:error", "test.one:1:error=ENONSENSE", "test.one:1:error=0", "test.one:1:short=3",
          "test.one:1:delay=", "test.one:101%1:kill", "test.one:5%:kill", "test.one:/0:kill",
          "nothing*:1:kill", "test.one:1:kill;test.one", ":1:kill", "test.one:99999999999999999999:kill"}) {
        const auto said = configure(rules, "");
        EXPECT_NE(said.find("TIERFS_TEST_FAULTS"), std::string::npos) << rules << ": " << said;
    }
    EXPECT_NE(configure("test.none:1:kill", "").find("no such fault point"), std::string::npos);
    EXPECT_EQ(hits(1), std::vector<int>{0}) << "refused rules are not in place";
}

TEST_F(FaultPoint, TheListHasPointsHitsAndWhatWasDone) {
    const auto file = std::filesystem::temp_directory_path() / ("faults." + std::to_string(::getpid()));
    ASSERT_EQ(configure("test.one:2:error=EIO", file.string()), "");
    hits(2);
    std::ifstream in(file);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    std::filesystem::remove(file);
    const auto pid = std::to_string(::getpid()) + "\n";
    EXPECT_NE(text.find("point test.one\n"), std::string::npos);
    EXPECT_NE(text.find("point test.two\n"), std::string::npos)
        << "it was not hit and is listed all the same";
    EXPECT_NE(text.find("hit test.one " + pid), std::string::npos);
    EXPECT_EQ(text.find("hit test.two"), std::string::npos);
    EXPECT_NE(text.find("fired test.one error=EIO " + pid), std::string::npos);
}

}  // namespace fault_point_test

#endif

}  // namespace fault_point_test
