#include "fs/daemon/restarts.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace restarts_test {

using namespace std::chrono_literals;

TEST(Restarts, AreLimitedWithinAnyMinute) {
    Restarts restarts(3);
    const Restarts::Clock::time_point start{1000s};
    for (const auto at : {0s, 20s, 40s}) {
        EXPECT_TRUE(restarts.next(start + at));
        restarts.served();
    }
    EXPECT_FALSE(restarts.next(start + 59s));
    EXPECT_EQ(restarts.recent(), 3U);
    EXPECT_TRUE(restarts.next(start + 60s)) << "the first is a minute ago";
    EXPECT_FALSE(restarts.next(start + 79s));
}

TEST(Restarts, ComeLaterAfterThoseThatNeverServed) {
    Restarts restarts(10);
    const Restarts::Clock::time_point now{1000s};
    EXPECT_EQ(restarts.next(now), 0ms);
    EXPECT_EQ(restarts.next(now), 250ms);
    EXPECT_EQ(restarts.next(now), 500ms);
    EXPECT_EQ(restarts.next(now), 1000ms);
    restarts.served();
    EXPECT_EQ(restarts.next(now), 0ms);
    for (int i = 0; i < 4; ++i) (void)restarts.next(now);
    EXPECT_EQ(restarts.next(now), 4000ms);
}

}  // namespace restarts_test
}  // namespace tierfs
