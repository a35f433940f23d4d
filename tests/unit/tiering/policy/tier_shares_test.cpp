#include "tiering/policy/tier_shares.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace tier_shares_test {

constexpr DatasetNumber kA = 0, kB = 1, kC = 2;

TEST(TierShares, OneAloneHasAll) {
    TierShares shares(100);
    shares.set(kA, Retention::stays);
    shares.add(kA, 100);
    EXPECT_EQ(shares.share(kA), 100U);
    EXPECT_FALSE(shares.may_displace_any(kA, 1)) << "what is kept goes for nothing";
}

TEST(TierShares, SharesFollowTheLimit) {
    TierShares shares(100);
    shares.set(kA, Retention::stays);
    shares.set_limit(40);
    EXPECT_EQ(shares.share(kA), 40U);
}

TEST(TierShares, WhoHasLessThanItsShareTakesFromWhoHasMore) {
    TierShares shares(100);
    shares.set(kA, Retention::stays);
    shares.set(kB, Retention::stays);
    shares.add(kA, 100);  // borrowed while nobody wanted it
    EXPECT_TRUE(shares.may_displace(kB, kA, 10));
    EXPECT_TRUE(shares.may_displace_any(kB, 50));
    EXPECT_FALSE(shares.may_displace(kB, kA, 51)) << "beyond its share";
    shares.remove(kA, 50);
    shares.add(kB, 50);
    EXPECT_FALSE(shares.may_displace(kB, kA, 1));
    EXPECT_FALSE(shares.may_displace(kA, kB, 1)) << "nor back again";
}

TEST(TierShares, WhatPassesTakesNothingAndGoes) {
    TierShares shares(100);
    for (const Retention retention : {Retention::passes, Retention::waits}) {
        shares.set(kA, Retention::stays);
        shares.set(kB, retention);
        EXPECT_FALSE(shares.may_displace(kB, kA, 1));
    }
    shares.set(kB, Retention::passes);
    shares.add(kA, 60);
    shares.add(kB, 40);
    EXPECT_EQ(shares.share(kA), 100U) << "it is counted for nothing";
    EXPECT_TRUE(shares.may_displace(kA, kB, 40));
    shares.set(kB, Retention::waits);
    EXPECT_FALSE(shares.may_displace(kA, kB, 1)) << "what nobody knows yet has a share";
}

TEST(TierShares, PinnedTakesFromAllAndGivesNothing) {
    TierShares shares(100);
    shares.set(kA, Retention::stays);
    shares.set(kB, Retention::pinned);
    shares.set(kC, Retention::goes);
    shares.add(kA, 50);
    shares.add(kC, 50);
    EXPECT_TRUE(shares.may_displace(kB, kA, 50));
    EXPECT_TRUE(shares.may_displace(kB, kC, 50));
    shares.remove(kA, 50);
    shares.add(kB, 50);
    EXPECT_EQ(shares.share(kC), 50U) << "what is pinned is not there for the others";
    EXPECT_FALSE(shares.may_displace(kC, kB, 1));
    shares.remove(kC, 50);
    shares.add(kB, 50);
    EXPECT_FALSE(shares.may_displace_any(kB, 1)) << "the tier is full of pins";
    EXPECT_EQ(shares.share(kC), 0U);
}

TEST(TierShares, WhatNobodyHasClaimedGoesForTheHotOnly) {
    TierShares shares(100);
    shares.set(kA, Retention::stays);
    shares.set(kB, Retention::goes);
    shares.add(kUnknownDataset, 100);
    EXPECT_FALSE(shares.may_displace(kA, kUnknownDataset, 10)) << "it may be its own";
    EXPECT_TRUE(shares.may_displace(kB, kUnknownDataset, 10));
}

TEST(TierShares, OneThatOnlyAskedHasAShare) {
    TierShares shares(90);
    for (const DatasetNumber each : {kA, kB, kC}) shares.set(each, Retention::stays);
    shares.add(kA, 90);
    EXPECT_EQ(shares.share(kA), 90U);
    shares.ask(kB);
    shares.ask(kC);
    EXPECT_EQ(shares.share(kA), 30U);
}

}  // namespace tier_shares_test
}  // namespace tierfs
