// What is known of a server's clock, which may be wrong by any amount.
#include "backends/nfs/server_clock.hpp"

#include <gtest/gtest.h>

namespace tierfs::nfs {
namespace server_clock_test {

constexpr std::int64_t kSecond = kNsPerSecond, kNow = 1'700'000'000 * kNsPerSecond;

TEST(ServerClockTest, IsNotTakenForLaterThanItIs) {
    ServerClock clock;
    EXPECT_LT(clock.at_least(kNow), 0);  // nothing is known
    clock.saw(kNow - 500 * kSecond, kNow);
    EXPECT_EQ(clock.at_least(kNow), kNow - 500 * kSecond);
    EXPECT_EQ(clock.at_least(kNow + 7 * kSecond), kNow - 493 * kSecond);  // it goes on as ours does
}

TEST(ServerClockTest, ServerBehindThisHost) {
    ServerClock clock;
    const auto server = [](std::int64_t here) { return here - 10 * kSecond; };
    clock.saw(server(kNow), kNow);  // a file that was changed just now
    EXPECT_EQ(clock.at_least(kNow), server(kNow));
    clock.saw(server(kNow), kNow + 3 * kSecond);  // the same one, asked again
    EXPECT_EQ(clock.at_least(kNow + 3 * kSecond), server(kNow + 3 * kSecond));
}

TEST(ServerClockTest, ServerAheadOfThisHost) {
    ServerClock clock;
    clock.saw(kNow + 10 * kSecond, kNow);
    EXPECT_EQ(clock.at_least(kNow + kSecond), kNow + 11 * kSecond);
}

TEST(ServerClockTest, AFileOfTheFarFutureIsNonsense) {
    ServerClock clock;
    clock.saw(kNow - kSecond, kNow);
    clock.saw(kNow + 2 * ServerClock::kFurthest, kNow);
    EXPECT_EQ(clock.at_least(kNow), kNow - kSecond);
}

}  // namespace server_clock_test
}  // namespace tierfs::nfs
