#include "tiering/policy/repeats.hpp"

#include <gtest/gtest.h>

#include "config/settings.hpp"

namespace tierfs {
namespace repeats_test {

using std::chrono::minutes;
using std::chrono::seconds;

const Repeats::Clock::time_point kStart = Repeats::Clock::now();

UnitKey key(std::uint64_t number) {
    return {{1, number}, 0};
}

TEST(Repeats, OneReadIsEnoughWhereOneIsAsked) {
    Repeats repeats(1, minutes(10));
    EXPECT_TRUE(repeats.read(key(1), kStart));
}

TEST(Repeats, CountsReadsThatAreNotTooFarApart) {
    Repeats repeats(2, minutes(10));
    EXPECT_FALSE(repeats.read(key(1), kStart));
    EXPECT_FALSE(repeats.read(key(2), kStart));
    EXPECT_TRUE(repeats.read(key(1), kStart + minutes(10)));
    EXPECT_FALSE(repeats.read(key(2), kStart + minutes(10) + seconds(1))) << "too late";
    EXPECT_TRUE(repeats.read(key(2), kStart + minutes(12))) << "but the next one is in time";
}

TEST(Repeats, ForeverIsATimeToo) {
    Repeats repeats(2, kForever);
    EXPECT_FALSE(repeats.read(key(1), kStart));
    EXPECT_TRUE(repeats.read(key(1), kStart + std::chrono::hours(24 * 365)));
}

TEST(Repeats, TheWindowMovesWithTheReads) {
    Repeats repeats(3, minutes(10));
    EXPECT_FALSE(repeats.read(key(1), kStart));
    EXPECT_FALSE(repeats.read(key(1), kStart + minutes(9)));
    EXPECT_FALSE(repeats.read(key(1), kStart + minutes(11)));
    EXPECT_TRUE(repeats.read(key(1), kStart + minutes(12))) << "9, 11, 12";
    EXPECT_FALSE(repeats.read(key(1), kStart + minutes(30)));
}

TEST(Repeats, ForgetsWhatWasReadLongestAgo) {
    Repeats repeats(2, minutes(10));
    EXPECT_FALSE(repeats.read(key(0), kStart));
    for (std::uint64_t number = 1; number <= Repeats::kMost; ++number)
        EXPECT_FALSE(repeats.read(key(number), kStart));
    EXPECT_FALSE(repeats.read(key(0), kStart)) << "forgotten";
    EXPECT_TRUE(repeats.read(key(Repeats::kMost), kStart));
}

}  // namespace repeats_test
}  // namespace tierfs
