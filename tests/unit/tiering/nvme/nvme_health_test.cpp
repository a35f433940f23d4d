// States of a device, and what tells that its reads do not come back or are slow.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tiering/nvme/health.hpp"
#include "tiering/nvme/read_watch.hpp"

namespace tierfs {
namespace nvme_health_test {

using namespace std::chrono_literals;

class NvmeHealth : public ::testing::Test {
  protected:
    std::chrono::steady_clock::time_point now_{1000s};
    Health health_{[this] { return now_; }};
};

TEST_F(NvmeHealth, ManyFailedReadsEndWritesUntilItRecovers) {
    for (unsigned at = 1; at < Health::kUnstable; ++at) EXPECT_FALSE(health_.read_failed("bad sector"));
    EXPECT_TRUE(health_.may_write());
    EXPECT_TRUE(health_.read_failed("bad sector"));
    EXPECT_EQ(health_.state(), Health::State::unstable);
    EXPECT_EQ(health_.reason(), "bad sector");
    now_ += 100s;
    EXPECT_FALSE(health_.may_write()) << "not before it was probed";
    EXPECT_FALSE(health_.is_pausing());
    EXPECT_TRUE(health_.may_read());
    EXPECT_FALSE(health_.write_succeeded());
    EXPECT_TRUE(health_.recovered());
    EXPECT_TRUE(health_.may_write());
    EXPECT_EQ(health_.reason(), "");
}

TEST_F(NvmeHealth, AFullDeviceIsNeverDown) {
    for (int at = 0; at < 100; ++at) (void)health_.write_failed("full", true);
    EXPECT_EQ(health_.state(), Health::State::unstable);
    EXPECT_TRUE(health_.is_pausing());
    now_ += Health::kPause;
    EXPECT_TRUE(health_.may_write());
    EXPECT_FALSE(health_.is_pausing());
}

TEST_F(NvmeHealth, WhatIsDownForWritesIsReadUntilReadsFailToo) {
    for (unsigned at = 0; at < Health::kLimit; ++at) (void)health_.write_failed("dead", false);
    EXPECT_EQ(health_.state(), Health::State::down);
    EXPECT_TRUE(health_.may_read());
    (void)health_.read_failed("dead");
    EXPECT_FALSE(health_.may_read());
    EXPECT_TRUE(health_.recovered());
    EXPECT_TRUE(health_.may_read());
    EXPECT_FALSE(health_.read_failed("once")) << "what was is forgotten";
    EXPECT_EQ(health_.state(), Health::State::normal);
}

TEST_F(NvmeHealth, DegradedAndGivenUp) {
    EXPECT_TRUE(health_.degrade("slow"));
    EXPECT_FALSE(health_.degrade("slow")) << "said once";
    EXPECT_FALSE(health_.may_write());
    EXPECT_TRUE(health_.may_read());
    EXPECT_TRUE(health_.give_up("dead"));
    EXPECT_FALSE(health_.may_read());
    EXPECT_EQ(health_.reason(), "dead");
    EXPECT_FALSE(health_.degrade("slow")) << "down stays down";
    EXPECT_EQ(health_.state(), Health::State::down);
}

class NvmeReadWatch : public ::testing::Test {
  protected:
    void read(std::chrono::microseconds time, std::uint64_t bytes = 4096) {
        ASSERT_TRUE(watch_.begin(now_, false));
        const auto began = now_;
        now_ += time;
        watch_.end(began, now_, bytes);
    }
    ReadWatch::Look window(int reads, std::chrono::microseconds time, std::uint64_t bytes = 4096) {
        for (int at = 0; at < reads; ++at) read(time, bytes);
        return watch_.look(now_);
    }
    std::chrono::steady_clock::time_point now_{1000s};
    ReadWatch watch_;
};

TEST_F(NvmeReadWatch, SlowIsFarOverUsualForATime) {
    for (int at = 0; at < 5; ++at) EXPECT_FALSE(window(50, 200us).slow);
    EXPECT_FALSE(window(50, 60ms).slow);
    EXPECT_FALSE(window(50, 60ms).slow);
    EXPECT_FALSE(window(50, 300us).slow) << "a moment is not a time";
    EXPECT_FALSE(window(50, 60ms).slow);
    EXPECT_FALSE(window(50, 60ms).slow);
    const auto look = window(50, 60ms);
    ASSERT_TRUE(look.slow);
    EXPECT_EQ(*look.slow, "reads take 60.0 ms, usually 0.2 ms");
}

TEST_F(NvmeReadWatch, LargeReadsAndFastDevicesAreNotSlow) {
    for (int at = 0; at < 5; ++at) (void)window(20, 200us);
    for (int at = 0; at < 9; ++at) EXPECT_FALSE(window(20, 40ms).slow) << "20 times, but no origin is faster";
    for (int at = 0; at < 9; ++at) EXPECT_FALSE(window(5, 300ms, 16 << 20).slow) << "5 ms for each 256 KiB";
}

TEST_F(NvmeReadWatch, WhatDoesNotComeBackIsSeenAndHoldsFew) {
    for (unsigned at = 0; at < 8; ++at) EXPECT_TRUE(watch_.begin(now_, false));
    EXPECT_EQ(watch_.look(now_).stalled, 0ms);
    const auto began = now_;
    now_ += 3s;
    EXPECT_EQ(watch_.look(now_).stalled, 3s);
    EXPECT_FALSE(watch_.begin(now_, false)) << "no more readers are held";
    watch_.end(began, now_, 4096);
    EXPECT_EQ(watch_.look(now_).stalled, 0ms);
    EXPECT_TRUE(watch_.begin(now_, false)) << "it moves again";
    EXPECT_FALSE(watch_.begin(now_, true)) << "an unstable one is read by few";
}

TEST_F(NvmeReadWatch, AnIdleDeviceIsNotStalled) {
    read(1ms);
    now_ += 100s;
    EXPECT_EQ(watch_.look(now_).stalled, 0ms);
    EXPECT_TRUE(watch_.begin(now_, true));
    EXPECT_EQ(watch_.look(now_).stalled, 0ms);
}

/// The first of them must not be seen without the time at which it began.
TEST_F(NvmeReadWatch, ReadersThatBeginTogetherOnAnIdleDeviceAreAllLetIn) {
    constexpr int kRounds = 20'000, kThreads = 2, kReads = 3, kSpins = 10'000;
    std::atomic<int> arrived{0}, refused{0};
    const auto gather = [&](int count) {
        ++arrived;
        for (int spin = 0; arrived < count; ++spin)
            if (spin > kSpins) std::this_thread::yield();
    };
    std::vector<std::thread> threads;
    for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, now = now_]() mutable {
            for (int round = 1; round <= kRounds; ++round) {
                now += 60s;
                gather((2 * round - 1) * kThreads);
                int begun = 0;
                for (int read = 0; read < kReads; ++read) begun += watch_.begin(now, false) ? 1 : 0;
                refused += kReads - begun;
                gather(2 * round * kThreads);
                for (int read = 0; read < begun; ++read) watch_.end(now, now, 4096);
            }
        });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(refused, 0);
}

}  // namespace nvme_health_test
}  // namespace tierfs
