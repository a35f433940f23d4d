#include "tiering/policy/dataset_policy.hpp"

#include <gtest/gtest.h>

#include "tests/unit/tiering/policy/reading.hpp"

namespace tierfs {
namespace dataset_policy_test {

using namespace reading;

constexpr std::uint64_t kSize = 16384;

/// Feeds a policy and keeps the books of bytes: `hit` says whether a tier had the file.
class Watched {
  public:
    explicit Watched(DatasetClass configured = DatasetClass::automatic) : policy(configured) {}

    template <typename Hit>
    void read(std::uint64_t number, const Hit& hit) {
        traffic.read += kSize;
        if (!hit(number)) traffic.from_origin += kSize;
        const std::string path = path_of(number);
        if (!policy.observe({UnitKey{id_of(number), 0}, path, 1, 0, kSize, kSize, false})) return;
        const auto step = policy.decide(traffic, now);
        now += std::chrono::seconds(1);
        if (step.changed) classes.push_back(policy.current());
        if (step.renew) ++renewed;
    }
    template <typename Hit>
    void epochs(std::uint64_t items, unsigned count, std::uint64_t first, const Hit& hit) {
        for (unsigned epoch = 0; epoch < count; ++epoch) {
            for (const std::uint64_t number : shuffled(items, random)) read(first + number, hit);
        }
    }

    DatasetPolicy policy;
    DatasetPolicy::Traffic traffic;
    DatasetPolicy::Clock::time_point now{std::chrono::seconds(1000)};
    std::vector<DatasetClass> classes;
    unsigned renewed = 0;
    std::mt19937_64 random{1};
};

constexpr auto kNever = [](std::uint64_t) { return false; };

TEST(DatasetPolicy, AnEpochIsRecognisedAndSaysWhy) {
    Watched watched;
    EXPECT_EQ(watched.policy.current(), DatasetClass::automatic);
    EXPECT_EQ(watched.policy.status().current, "undecided");
    EXPECT_EQ(watched.policy.status().decided_s, 0);
    watched.epochs(3000, 3, 0, kNever);
    EXPECT_EQ(watched.classes, (std::vector{DatasetClass::epoch}));
    const DatasetStatus status = watched.policy.status();
    EXPECT_EQ(status.configured, "auto");
    EXPECT_EQ(status.current, "epoch");
    EXPECT_EQ(status.decided_s, 1000);
    EXPECT_NE(status.reason.find("of 128 visits 128 of new files, 0 repeats"), std::string::npos)
        << status.reason;
}

TEST(DatasetPolicy, AnotherPatternDecidesAgainAndOneWindowDoesNot) {
    Watched watched;
    watched.epochs(3000, 2, 0, kNever);
    // One scan of an hour's notebook: a window and a bit in order.
    for (std::uint64_t number = 100000; number < 100300; ++number) watched.read(number, kNever);
    watched.epochs(3000, 1, 0, kNever);
    EXPECT_EQ(watched.classes, (std::vector{DatasetClass::epoch}));
    Zipf zipf(50000, 1.1, 2);
    for (int i = 0; i < 20000; ++i) watched.read(zipf.next(), kNever);
    EXPECT_EQ(watched.policy.current(), DatasetClass::hot);
    watched.epochs(3000, 8, 0, kNever);
    EXPECT_EQ(watched.policy.current(), DatasetClass::epoch);
}

/// Files of 4 GiB: a whole file comes back after a short gap where it was the last and is the first.
TEST(DatasetPolicy, AFewLargeFilesInShuffledOrderStayAnEpoch) {
    constexpr std::uint64_t kUnits = 1000;
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        DatasetPolicy policy(DatasetClass::automatic);
        std::mt19937_64 random(seed);
        unsigned hot = 0;
        for (int epoch = 0; epoch < 6; ++epoch) {
            for (const std::uint64_t number : shuffled(8, random)) {
                const std::string path = path_of(number);
                for (std::uint64_t unit = 0; unit < kUnits; ++unit) {
                    const std::uint64_t begin = unit << 22U;
                    if (!policy.observe({UnitKey{id_of(number), unit}, path, ~BlockMask{0}, begin,
                                         begin + (1U << 22U), 1U << 22U, unit > 0}))
                        continue;
                    policy.decide({}, {});
                    if (policy.current() == DatasetClass::hot) ++hot;
                }
            }
        }
        EXPECT_EQ(hot, 0U) << seed;
        EXPECT_EQ(policy.current(), DatasetClass::epoch) << seed;
    }
}

TEST(DatasetPolicy, WhatIsConfiguredStays) {
    Watched watched(DatasetClass::hot);
    watched.epochs(3000, 3, 0, kNever);
    EXPECT_EQ(watched.policy.current(), DatasetClass::hot);
    EXPECT_TRUE(watched.classes.empty());
    EXPECT_EQ(watched.policy.status().configured, "hot");
    EXPECT_EQ(watched.policy.status().reason, "set by class");
    EXPECT_GT(watched.policy.status().evidence.visits, 0U);  // seen all the same
}

TEST(DatasetPolicy, AFrozenEpochThatHitsIsNeverRenewed) {
    for (const std::uint64_t share : {10U, 25U, 50U, 90U}) {
        Watched watched;
        watched.traffic.full = true;
        watched.traffic.resident = 5000 * kSize * share / 100;
        watched.epochs(5000, 6, 0, [&](std::uint64_t number) { return number % 100 < share; });
        EXPECT_EQ(watched.renewed, 0U) << share;
    }
}

TEST(DatasetPolicy, AnotherJobOverOtherFilesRenewsWhatIsKept) {
    Watched watched;
    watched.traffic.full = true;
    watched.traffic.resident = 2500 * kSize;
    const auto half = [](std::uint64_t number) { return number < 2500; };
    watched.epochs(5000, 3, 0, half);
    ASSERT_EQ(watched.renewed, 0U);
    watched.epochs(5000, 1, 100000, half);
    EXPECT_EQ(watched.renewed, 0U);  // it may have been one look at everything
    watched.epochs(5000, 1, 100000, half);
    EXPECT_GE(watched.renewed, 1U);
    EXPECT_EQ(watched.policy.status().renewals, watched.renewed);
}

TEST(DatasetPolicy, NothingIsRenewedWhileThereIsRoom) {
    Watched watched;
    watched.traffic.resident = 2500 * kSize;
    watched.epochs(5000, 5, 100000, kNever);
    EXPECT_EQ(watched.renewed, 0U);
}

}  // namespace dataset_policy_test
}  // namespace tierfs
