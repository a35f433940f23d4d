// Runs through a directory's files: what is wanted ahead of them.
#include "tiering/prefetch/directory_runs.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace tierfs {
namespace directory_runs_test {

/// Reads in this order; what was wanted in all. Nothing is wanted twice.
std::set<std::uint64_t> wanted_after(DirectoryRuns& runs, const std::vector<std::uint64_t>& places,
                                     std::uint64_t most = 64) {
    std::set<std::uint64_t> all;
    for (const std::uint64_t place : places) {
        const auto wanted = runs.observe(place, most);
        if (!wanted) continue;
        for (std::uint64_t i = wanted->begin; i < wanted->end; i += wanted->step) {
            EXPECT_TRUE(all.insert(i).second) << i << " twice";
        }
    }
    return all;
}

TEST(DirectoryRuns, TheThirdFileStartsAWindowThatDoubles) {
    DirectoryRuns runs;
    EXPECT_FALSE(runs.observe(10, 64));
    EXPECT_FALSE(runs.observe(11, 64));
    for (const std::uint64_t window : {4U, 8U, 16U, 32U, 64U, 64U}) {
        static std::uint64_t place = 11;
        const auto wanted = runs.observe(++place, 64);
        ASSERT_TRUE(wanted);
        EXPECT_EQ(wanted->end, place + window + 1);
        EXPECT_EQ(wanted->step, 1U);
    }
}

TEST(DirectoryRuns, WantsAllFilesOnceOfWorkersWhoTakeTurns) {
    for (const std::uint64_t workers : {2U, 4U, 8U}) {
        std::mt19937 random(workers);
        std::vector<std::uint64_t> places;
        for (std::uint64_t round = 0; round < 50; ++round) {
            std::vector<std::uint64_t> turn;
            for (std::uint64_t i = 0; i < workers; ++i) turn.push_back(round * workers + i);
            std::shuffle(turn.begin(), turn.end(), random);
            places.insert(places.end(), turn.begin(), turn.end());
        }
        DirectoryRuns runs;
        const auto wanted = wanted_after(runs, places);
        std::size_t missed = 0;
        for (std::uint64_t i = 0; i < places.size(); ++i) missed += wanted.contains(i) ? 0 : 1;
        EXPECT_LE(missed, 4 * workers + 4) << workers;
    }
}

TEST(DirectoryRuns, OfEveryFourthFileOnlyThose) {
    std::vector<std::uint64_t> places;
    for (std::uint64_t i = 0; i < 40; ++i) places.push_back(3 + 4 * i);
    DirectoryRuns runs;
    const auto wanted = wanted_after(runs, places);
    for (const std::uint64_t place : wanted) EXPECT_EQ(place % 4, 3U);
    EXPECT_GE(wanted.size(), 64U);
    EXPECT_LE(*wanted.rbegin(), places.back() + 4 * 64);
}

TEST(DirectoryRuns, SeveralRunsAtOnce) {
    std::vector<std::uint64_t> places;
    for (std::uint64_t i = 0; i < 30; ++i) {
        for (std::uint64_t reader = 0; reader < 8; ++reader) places.push_back(reader * 1000 + i);
    }
    DirectoryRuns runs;
    const auto wanted = wanted_after(runs, places);
    for (std::uint64_t reader = 0; reader < 8; ++reader) {
        EXPECT_TRUE(wanted.contains(reader * 1000 + 29 + 64)) << reader;
        EXPECT_FALSE(wanted.contains(reader * 1000 + 29 + 65)) << reader;
    }
}

TEST(DirectoryRuns, ShuffledReadsWantAlmostNothing) {
    for (const std::uint64_t files : {100U, 1000U, 20000U}) {
        std::vector<std::uint64_t> places(files);
        std::iota(places.begin(), places.end(), 0);
        std::shuffle(places.begin(), places.end(), std::mt19937(static_cast<unsigned>(files)));
        DirectoryRuns runs;
        EXPECT_LE(wanted_after(runs, places, 512).size(), files / 50 + 4) << files;
    }
}

TEST(DirectoryRuns, NothingIsWantedAfterASeek) {
    DirectoryRuns runs;
    wanted_after(runs, {0, 1, 2, 3});
    EXPECT_FALSE(runs.observe(500, 64));
    EXPECT_FALSE(runs.observe(501, 64));
    EXPECT_TRUE(runs.observe(502, 64));
}

TEST(DirectoryRuns, WhatWasPutBackIsWantedAgain) {
    DirectoryRuns runs;
    runs.observe(0, 64);
    runs.observe(1, 64);
    const auto first = runs.observe(2, 64);
    ASSERT_TRUE(first);
    runs.put_back(*first, 4);
    const auto again = runs.observe(3, 64);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->begin, 4U);
}

TEST(DirectoryRuns, RunsGoOnWhenTheFirstFilesAreForgotten) {
    DirectoryRuns runs;
    for (std::uint64_t i = 0; i < 100; ++i) runs.observe(i, 8);
    runs.renumber(90);
    const auto wanted = runs.observe(10, 8);  // file 100
    ASSERT_TRUE(wanted);
    EXPECT_EQ(wanted->begin, 18U);
    EXPECT_EQ(wanted->end, 19U);
}

}  // namespace directory_runs_test
}  // namespace tierfs
