#include "config/base/latency_histogram.hpp"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tierfs {
namespace latency_histogram_test {

using std::chrono::microseconds;

TEST(LatencyHistogram, CountsInBucketsWhoseBoundsAreInclusive) {
    LatencyHistogram histogram;
    for (const int us : {0, 1, 2, 3, 4, 5, 1024, 1025}) histogram.add(microseconds(us));
    histogram.add(std::chrono::hours(1));
    histogram.add(microseconds(-5));  // clocks may be of different processors
    const auto stats = histogram.get();
    EXPECT_EQ(stats.counts[0], 3U);
    EXPECT_EQ(stats.counts[1], 1U);
    EXPECT_EQ(stats.counts[2], 2U);
    EXPECT_EQ(stats.counts[3], 1U);
    EXPECT_EQ(stats.counts[10], 1U);
    EXPECT_EQ(stats.counts[11], 1U);
    EXPECT_EQ(stats.counts[LatencyStats::kBuckets - 1], 1U);
    EXPECT_EQ(stats.count(), 10U);
    EXPECT_EQ(stats.sum_us, 3600000000U + 2064U);
}

TEST(LatencyHistogram, OneStandsForSeveral) {
    LatencyHistogram histogram;
    histogram.add(microseconds(10), 16);
    EXPECT_EQ(histogram.get().count(), 16U);
    EXPECT_EQ(histogram.get().sum_us, 160U);
}

TEST(LatencyHistogram, PercentilesLieInTheirBucket) {
    LatencyHistogram histogram;
    EXPECT_EQ(histogram.get().percentile_us(0.5), 0);
    for (int i = 0; i < 98; ++i) histogram.add(microseconds(100));
    for (int i = 0; i < 2; ++i) histogram.add(microseconds(100000));
    const auto stats = histogram.get();
    EXPECT_GT(stats.percentile_us(0.5), 64);
    EXPECT_LE(stats.percentile_us(0.5), 128);
    EXPECT_LE(stats.percentile_us(0.98), 128);
    EXPECT_GT(stats.percentile_us(0.99), 65536);
    EXPECT_LE(stats.percentile_us(1), 131072);
}

TEST(LatencyHistogram, LosesNothingOfManyThreads) {
    LatencyHistogram histogram;
    std::vector<std::thread> threads;
    for (int i = 0; i < 20; ++i) {
        threads.emplace_back([&] {
            for (int j = 0; j < 1000; ++j) histogram.add(microseconds(j));
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(histogram.get().count(), 20000U);
}

}  // namespace latency_histogram_test
}  // namespace tierfs
