#include "bench/iobench/suites/utilization.hpp"

#include <gtest/gtest.h>

namespace tierfs::iobench {
namespace utilization_test {

constexpr std::uint64_t kMs = 1'000'000;

/// Milliseconds of one step.
struct Spent {
    std::uint64_t load, compute, barrier;
};

/// A block that begins at `start` ms, spends `before` ms until its first step, and ends with its last
/// barrier.
StepBlock block(std::uint64_t start, std::uint64_t before, const std::vector<Spent>& spent) {
    StepBlock made;
    made.start = start * kMs;
    std::uint64_t at = (start + before) * kMs;
    for (const Spent& step : spent) {
        Step& next = made.steps.emplace_back();
        next.asked = at;
        next.loaded = next.asked + step.load * kMs;
        next.computed = next.loaded + step.compute * kMs;
        next.synchronized = next.computed + step.barrier * kMs;
        at = next.synchronized;
    }
    made.end = at;
    return made;
}

// By hand: the block lasts 5 + (100+10+1) + (20+10+2) + (10+11+4) + (0+9+3) = 5+111+32+25+12 = 185 ms. The
// first step is excluded: its proc of 110 ms leaves the denominator, 75 ms remain: the 5 ms before it, its
// barrier of 1 ms, and 69 ms of the others. Computed: 10+11+9 = 30 ms. AU = 30/75 = 40 %. Barriers: 1+2+4+3 =
// 10 ms; net 30/65. Throughput: (4-2) steps of 8 samples in 0.075 s.
const std::vector<Spent> kFour{{100, 10, 1}, {20, 10, 2}, {10, 11, 4}, {0, 9, 3}};

TEST(AcceleratorUtilization, OfOneBlockIsWhatTheFormulaSays) {
    const auto figures = block_utilization(block(1000, 5, kFour), 4, {8, 1, 0});
    EXPECT_EQ(figures.au_percent, 40);
    EXPECT_EQ(figures.au_net_percent, 100 * (30.0 / 65));
    EXPECT_DOUBLE_EQ(figures.samples_per_s, 2 * 8 / 0.075);
}

// Nothing excluded: 40 ms of 185. First and last excluded: computed 21 ms; 185 - 110 - 9 = 66 ms.
TEST(AcceleratorUtilization, ExcludesStepsAtBothEnds) {
    EXPECT_EQ(block_utilization(block(0, 5, kFour), 4, {1, 0, 0}).au_percent, 100 * (40.0 / 185));
    EXPECT_EQ(block_utilization(block(0, 5, kFour), 4, {1, 1, 1}).au_percent, 100 * (21.0 / 66));
    EXPECT_EQ(block_utilization(block(0, 5, kFour), 4, {1, 2, 2}).au_percent, 0);
}

TEST(AcceleratorUtilization, IsZeroWhenNothingIsComputedOrThereAreNoSteps) {
    EXPECT_EQ(block_utilization(block(0, 0, {{5, 0, 1}, {5, 0, 1}}), 2, {}).au_percent, 0);
    EXPECT_EQ(block_utilization({}, 0, {}), Utilization{});
    EXPECT_EQ(rank_utilization({}, {}), Utilization{});
    EXPECT_EQ(epoch_utilization({}, {}), Utilization{});
    EXPECT_EQ(run_utilization({}, {}), Utilization{});
    EXPECT_EQ(block_utilization(block(0, 0, {{5, 5, 0}}), 1, {1, 9, 9}).au_percent, 0);
}

// One step alone is excluded: its AU is 0, and so are its samples/s, not (1-2)*1/(2 ms).
TEST(AcceleratorUtilization, OfTwoStepsOrFewerHasNoSamples) {
    const auto figures = block_utilization(block(0, 0, {{5, 5, 2}}), 1, {});
    EXPECT_EQ(figures.au_percent, 0);
    EXPECT_EQ(figures.samples_per_s, 0);
    EXPECT_EQ(block_utilization(block(0, 0, {{5, 5, 2}, {5, 5, 2}}), 2, {}).samples_per_s, 0);
}

// The second block has 2 steps: 0+40+0, 10+30+0: the end of the epoch (4+2-1) lies beyond it, so that only
// its first step is excluded: 30 ms of 80 - 40 = 40 ms, 75 %. Weighted by steps: (4 * 40 + 2 * 75) / 6.
TEST(AcceleratorUtilization, WeightsBlocksByTheirSteps) {
    const RankTrace rank{block(0, 5, kFour), block(500, 0, {{0, 40, 0}, {10, 30, 0}})};
    EXPECT_DOUBLE_EQ(rank_utilization(rank, {}).au_percent, (4 * 40 + 2 * 75) / 6.0);
}

// Ranks: 40 % and 20/25 = 80 % of AU; samples/s add up: 2/0.075 + 1/0.025... of 3 steps one counts.
TEST(AcceleratorUtilization, OfRanksIsTheirMeanAndTheirThroughputTheSum) {
    const RankTrace other{block(0, 0, {{9, 1, 0}, {2, 10, 0}, {3, 10, 0}})};
    const EpochTrace epoch{{block(0, 5, kFour)}, other};
    const auto figures = epoch_utilization(epoch, {});
    EXPECT_DOUBLE_EQ(figures.au_percent, 60);
    EXPECT_DOUBLE_EQ(figures.samples_per_s, 2 / 0.075 + 1 / 0.025);
    const auto run = run_utilization({epoch, {other}}, {});
    EXPECT_DOUBLE_EQ(run.au_percent, 70);
    EXPECT_DOUBLE_EQ(run.samples_per_s, (2 / 0.075 + 2 / 0.025) / 2);
}

TEST(AcceleratorUtilization, TimesAreSumsOverStepsAndMeansOverRanks) {
    const EpochTrace epoch{{block(0, 5, kFour)}, {block(0, 0, {{10, 20, 30}})}};
    const Times times = times_of(epoch);
    EXPECT_DOUBLE_EQ(times.load, (0.130 + 0.010) / 2);
    EXPECT_DOUBLE_EQ(times.compute, (0.040 + 0.020) / 2);
    EXPECT_DOUBLE_EQ(times.barrier, (0.010 + 0.030) / 2);
    EXPECT_EQ(times_of({}).load, 0);
}

}  // namespace utilization_test
}  // namespace tierfs::iobench
