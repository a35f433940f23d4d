#include "fs/readwrite/descriptor_shares.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tierfs {
namespace descriptor_shares_test {

std::size_t take_all(DescriptorShares& shares, std::uint32_t user,
                     std::vector<DescriptorShares::Share>& taken) {
    std::size_t count = 0;
    while (count < 1000) {
        auto one = shares.take(user, 1);
        if (!one) break;
        taken.push_back(std::move(*one));
        ++count;
    }
    return count;
}

TEST(DescriptorShares, NobodyGetsMoreThanHalfOfWhatTheOthersLeave) {
    DescriptorShares shares(100);
    std::vector<DescriptorShares::Share> first, second, third;
    EXPECT_EQ(take_all(shares, 1, first), 50U);
    EXPECT_EQ(take_all(shares, 2, second), 25U);
    EXPECT_EQ(take_all(shares, 3, third), 12U);
    EXPECT_FALSE(shares.take(1, 1));
    first.resize(10);
    EXPECT_TRUE(shares.take(2, 1)) << "there is more again";
    second.clear();
    third.clear();
    EXPECT_EQ(take_all(shares, 1, first), 40U);
}

TEST(DescriptorShares, RootIsNotHeldBack) {
    DescriptorShares shares(10);
    std::vector<DescriptorShares::Share> roots, others;
    EXPECT_EQ(take_all(shares, 0, roots), 1000U);
    EXPECT_EQ(take_all(shares, 1, others), 0U);
    roots.clear();
    EXPECT_EQ(take_all(shares, 1, others), 5U);
}

TEST(DescriptorShares, ASharesMayOutliveWhatItIsOf) {
    std::vector<DescriptorShares::Share> kept;
    {
        DescriptorShares shares(10);
        kept.push_back(std::move(*shares.take(1, 2)));
        EXPECT_FALSE(shares.take(1, 4)) << "all of it or nothing";
        EXPECT_TRUE(shares.take(1, 3));
    }
    kept.clear();
}

}  // namespace descriptor_shares_test
}  // namespace tierfs
