#include "tiering/policy/read_counts.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace read_counts_test {

using std::chrono::seconds;

const ReadCounts::Clock::time_point kStart{};

ContentId id(std::uint64_t number) {
    return {0, number};
}

TEST(ReadCounts, CountsReadsAndTheTimeBetweenThem) {
    ReadCounts counts(kStart);
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(5)).reads, 0U);
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(5)).idle, seconds(5)) << "since the start";
    counts.began(id(1), kStart + seconds(10));
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(10)).reads, 1U);
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(10)).idle, seconds(10));
    counts.began(id(1), kStart + seconds(40));
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(41)).reads, 2U);
    EXPECT_EQ(counts.uses(id(1), kStart + seconds(41)).idle, seconds(30)) << "before this read";
}

TEST(ReadCounts, ForgetsWhatWasReadLongestAgo) {
    ReadCounts counts(kStart);
    counts.began(id(0), kStart);
    for (std::uint64_t number = 1; number < ReadCounts::kMost; ++number) counts.began(id(number), kStart);
    counts.began(id(0), kStart);
    counts.began(id(ReadCounts::kMost), kStart);
    EXPECT_EQ(counts.uses(id(0), kStart).reads, 2U);
    EXPECT_EQ(counts.uses(id(1), kStart).reads, 0U);
    EXPECT_EQ(counts.uses(id(2), kStart).reads, 1U);
}

}  // namespace read_counts_test
}  // namespace tierfs
