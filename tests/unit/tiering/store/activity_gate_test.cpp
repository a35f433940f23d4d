#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tiering/store/store_impl.hpp"

namespace tierfs {
namespace activity_gate_test {

using std::chrono::milliseconds;

TEST(ActivityGate, RefusesOnceClosedAndWaitsForWhatRuns) {
    ActivityGate gate;
    ASSERT_TRUE(gate.enter());
    gate.add();
    gate.close();
    EXPECT_TRUE(gate.closed());
    EXPECT_FALSE(gate.enter());
    gate.leave();
    EXPECT_FALSE(gate.wait(milliseconds(5)));
    std::thread last([&] { gate.leave(); });
    EXPECT_TRUE(gate.wait(milliseconds(60'000)));
    last.join();
    EXPECT_FALSE(gate.enter());
    EXPECT_TRUE(gate.wait(milliseconds(0))) << "who is refused leaves nothing behind";
}

/// What runs hands work on to other threads, so that each one's way in and out is counted apart.
TEST(ActivityGate, IsNeverIdleWhileSomethingRuns) {
    for (int round = 0; round < 20; ++round) {
        ActivityGate gate;
        std::atomic<int> running{0}, handed_on{0};
        std::atomic<bool> over{false};
        std::vector<std::thread> threads;
        for (int number = 0; number < 3; ++number) {
            threads.emplace_back([&] {
                while (gate.enter()) {
                    ++running;
                    gate.add();  // for the other thread
                    ++handed_on;
                    --running;
                    gate.leave();
                }
            });
        }
        std::thread other([&] {
            while (!over) {
                if (handed_on == 0) continue;
                --handed_on;
                gate.leave();
            }
        });
        std::this_thread::sleep_for(milliseconds(2));
        gate.close();
        EXPECT_TRUE(gate.wait(milliseconds(60'000)));
        EXPECT_EQ(running, 0);
        EXPECT_EQ(handed_on, 0);
        over = true;
        for (auto& thread : threads) thread.join();
        other.join();
    }
}

TEST(Striped, CountsOfAllThreadsAddUp) {
    StripedCounter counter;
    std::vector<std::thread> threads;
    for (int number = 0; number < 40; ++number) {
        threads.emplace_back([&] {
            for (int i = 0; i < 1000; ++i) counter.add(3);
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(counter.get(), 40U * 1000 * 3);
}

}  // namespace activity_gate_test
}  // namespace tierfs
