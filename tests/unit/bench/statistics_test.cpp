#include "bench/iobench/run/statistics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

namespace tierfs::iobench {
namespace statistics_test {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(Statistics, QuantilesLieBetweenNeighbours) {
    EXPECT_DOUBLE_EQ(median({3, 1, 2}), 2);
    EXPECT_DOUBLE_EQ(median({4, 1, 2, 3}), 2.5);
    EXPECT_DOUBLE_EQ(quantile({10, 20}, 0.25), 12.5);
    EXPECT_DOUBLE_EQ(quantile({7}, 0.99), 7);
    EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

TEST(Statistics, NothingAndOneValueHaveIntervalsOfNoWidth) {
    EXPECT_EQ(median_interval({}), (Interval{0, 0}));
    EXPECT_EQ(median_interval({7}), (Interval{7, 7}));
    EXPECT_EQ(median_interval({7, 7, 7}), (Interval{7, 7}));
}

// By hand: the median of 5 draws from 1 … 5 is 1 when three or more of them are 1, in (160 + 20 + 1) of 3125
// cases, 5.8 %. That is more than 2.5 %, so that the interval reaches from the least to the largest.
TEST(Statistics, IntervalOfFiveValuesReachesFromTheLeastToTheLargest) {
    EXPECT_EQ(median_interval({5, 1, 4, 2, 3}), (Interval{1, 5}));
}

// By hand: the median of 11 draws from 1 … 11 is at most k when 6 or more of them are, each with probability
// k/11. These binomial sums are 0.0072 for k = 2 and 0.0512 for k = 3, so that the 2.5 % quantile is 3, and
// by symmetry the upper end 9.
TEST(Statistics, IntervalOfElevenValuesIsThatOfTheBinomialSums) {
    std::vector<double> values(11);
    std::iota(values.begin(), values.end(), 1);
    EXPECT_EQ(median_interval(values), (Interval{3, 9}));
}

TEST(Statistics, IntervalsAreTheSameEachTime) {
    const std::vector<double> values = {1.5, 9, 2.25, 4, 7, 3, 8, 6};
    EXPECT_EQ(median_interval(values), median_interval(values));
    EXPECT_EQ(ratio(values, {2, 3, 4}), ratio(values, {2, 3, 4}));
}

// The mouse data of Efron and Tibshirani, "An introduction to the bootstrap", table 2.1 (days of survival):
// the medians are 94 and 46, and the standard error of the treated one by bootstrap is 37.8 there, so that
// the interval is wide: from the third to the fifth value or farther.
TEST(Statistics, MouseDataHasTheMediansAndWideIntervalsOfTheBook) {
    const std::vector<double> treated = {94, 197, 16, 38, 99, 141, 23};
    const std::vector<double> control = {52, 104, 146, 10, 51, 30, 40, 27, 46};
    EXPECT_DOUBLE_EQ(median(treated), 94);
    EXPECT_DOUBLE_EQ(median(control), 46);
    EXPECT_EQ(median_interval(treated), (Interval{23, 141}));
    const Ratio both = ratio(treated, control);
    EXPECT_DOUBLE_EQ(both.value, 94.0 / 46);
    EXPECT_LT(both.interval[0], 1);
    EXPECT_GT(both.interval[1], 2);
}

TEST(Statistics, RatioOfRunsThatHaveNothingToDoWithEachOther) {
    const Ratio same = ratio({10, 10, 10}, {5, 5, 5});
    EXPECT_EQ(same, (Ratio{2, {2, 2}}));
    EXPECT_EQ(ratio({1}, {0}), Ratio{});
    EXPECT_EQ(ratio({1}, {}), Ratio{});
    EXPECT_EQ(ratio({}, {1}), Ratio{});
    const Ratio mixed = ratio({1, 2, 3}, {0, 1, 2});  // medians of 0 occur among the resamples
    EXPECT_DOUBLE_EQ(mixed.value, 2);
    EXPECT_TRUE(std::isfinite(mixed.interval[1]));
}

TEST(Statistics, PairedRatioDoesNotSeeWhatSlowedWholeRounds) {
    const std::vector<double> base = {100, 10, 50, 1000, 20};  // rounds of very different speed
    std::vector<double> values;
    for (const double value : base) values.push_back(value * 1.5);
    EXPECT_EQ(paired_ratio(values, base), (Ratio{1.5, {1.5, 1.5}}));
    EXPECT_LT(ratio(values, base).interval[0], 1);
}

TEST(Statistics, PairedRatioLeavesOutWhatHasNoPair) {
    EXPECT_EQ(paired_ratio({2, 4, 6}, {1, 2}), (Ratio{2, {2, 2}}));
    EXPECT_EQ(paired_ratio({2, 4}, {0, 2}), (Ratio{2, {2, 2}}));
    EXPECT_EQ(paired_ratio({2}, {0}), Ratio{});
}

// By hand: quartiles 2 and 4, distance 2, fences -1 and 7.
TEST(Statistics, OutliersLieBeyondTukeysFences) {
    EXPECT_THAT(outliers({1, 2, 3, 4, 7}), IsEmpty());
    EXPECT_THAT(outliers({1, 2, 3, 4, 7.01}), ElementsAre(4));
    EXPECT_THAT(outliers({-1.01, 2, 3, 4, 4}), ElementsAre(0));
    EXPECT_THAT(outliers({5, 5, 5, 5, 5}), IsEmpty());
    EXPECT_THAT(outliers({}), IsEmpty());
    EXPECT_THAT(outliers({9}), IsEmpty());
}

TEST(Statistics, SummaryHoldsThemAll) {
    const Summary summary = summarize({1, 2, 3, 4, 100});
    EXPECT_DOUBLE_EQ(summary.median, 3);
    EXPECT_DOUBLE_EQ(summary.p95, 80.8);
    EXPECT_DOUBLE_EQ(summary.min, 1);
    EXPECT_DOUBLE_EQ(summary.max, 100);
    EXPECT_EQ(summary.ci95, (Interval{1, 100}));
    EXPECT_THAT(summary.outliers, ElementsAre(4));
}

}  // namespace statistics_test
}  // namespace tierfs::iobench
