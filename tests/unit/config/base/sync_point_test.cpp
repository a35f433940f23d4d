#include "config/base/sync_point.hpp"

#include <gtest/gtest.h>

#ifdef TIERFS_TEST_POINTS

#include <atomic>
#include <stdexcept>
#include <thread>

#include "tests/unit/script.hpp"

namespace tierfs {
namespace sync_point_test {

TEST(SyncPoint, DoesNothingWithoutAScript) {
    TIERFS_SYNC_POINT("nobody asked");
}

TEST(SyncPoint, TheSecondWaitsForTheFirst) {
    for (int round = 0; round < 20; ++round) {
        std::atomic<int> next{0};
        int first = -1, second = -1;
        Script script;
        script.order("test.first", "test.second");
        std::thread late([&] {
            TIERFS_SYNC_POINT("test.second");
            second = next++;
        });
        EXPECT_TRUE(script.await("test.second"));
        first = next++;
        TIERFS_SYNC_POINT("test.first");
        late.join();
        EXPECT_EQ(first, 0);
        EXPECT_EQ(second, 1);
    }
}

TEST(SyncPoint, CallbacksCountTheirThreads) {
    Script script;
    std::size_t last = 0;
    int calls = 0;
    script.at("test.counted", [&](std::size_t number) { last = number; });
    script.once("test.once", [&] { ++calls; });
    for (int i = 0; i < 3; ++i) {
        TIERFS_SYNC_POINT("test.counted");
        TIERFS_SYNC_POINT("test.once");
    }
    EXPECT_EQ(last, 3U);
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(script.passed("test.counted"), 3U);
    EXPECT_EQ(script.passed("test.never"), 0U);
}

TEST(SyncPoint, ACallbackMayPassThePointItself) {
    Script script;
    script.once("test.again", [] { TIERFS_SYNC_POINT("test.again"); });
    TIERFS_SYNC_POINT("test.again");
    EXPECT_EQ(script.passed("test.again"), 2U);
}

TEST(SyncPoint, AnOrderThatNeverComesIsAFailureAndNoHang) {
    SyncScript script(std::chrono::milliseconds(20));
    script.order("test.never", "test.waits");
    TIERFS_SYNC_POINT("test.waits");
    EXPECT_FALSE(script.await("test.nobody"));
    EXPECT_EQ(script.failures(), (std::vector<std::string>{"test.waits waited too long for test.never",
                                                           "nobody came to test.nobody"}));
}

TEST(SyncPoint, TheEndOfAScriptLetsGoWhoWaits) {
    std::thread waits;
    {
        Script script;
        script.order("test.never", "test.waits");
        waits = std::thread([] { TIERFS_SYNC_POINT("test.waits"); });
        EXPECT_TRUE(script.await("test.waits"));
    }
    waits.join();
    Script next;  // nothing of the first one is left
    TIERFS_SYNC_POINT("test.waits");
    EXPECT_EQ(next.passed("test.waits"), 1U);
}

TEST(SyncPoint, TwoScriptsAtATimeAreRefused) {
    Script script;
    EXPECT_THROW(SyncScript(), std::logic_error);
    TIERFS_SYNC_POINT("test.of the first");
    EXPECT_EQ(script.passed("test.of the first"), 1U);
}

}  // namespace sync_point_test

#endif

}  // namespace sync_point_test
