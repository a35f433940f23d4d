#include "config/base/delivery.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace tierfs {
namespace {

TEST(Delivery, WhoDeliversNothingMayWait) {
    EXPECT_FALSE(Delivery::is_under_way());
    EXPECT_TRUE(may_wait_for("an answer"));
    {
        const Delivery delivery;
        std::thread([] { EXPECT_TRUE(may_wait_for("an answer")) << "another thread delivers"; }).join();
    }
    EXPECT_TRUE(may_wait_for("an answer")) << "it is over";
}

TEST(Delivery, ScopesAreNested) {
    const Delivery outer;
    { const Delivery inner; }
    EXPECT_TRUE(Delivery::is_under_way());
}

#ifdef TIERFS_TEST_POINTS
TEST(DeliveryDeathTest, WhoDeliversAnswersMustNotWaitForOne) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    EXPECT_DEATH(
        {
            const Delivery delivery;
            (void)may_wait_for("READ");
        },
        "about to wait for READ");
}
#endif

}  // namespace
}  // namespace tierfs
