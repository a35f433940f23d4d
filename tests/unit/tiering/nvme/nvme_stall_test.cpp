// A device that does not come back from a write: what waits for it must not take all memory.
#include <gtest/gtest.h>

#include <atomic>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_stall_test {

constexpr std::uint64_t kMiB = 1 << 20;

class NvmeStallTest : public NvmeTest {
  protected:
    void SetUp() override {
        NvmeTest::SetUp();
        options_.limit = 256 * kMiB;
        options_.stalled_queue = 8 * kMiB;
        hooks_.now = [this] { return Health::Clock::time_point(std::chrono::milliseconds(clock_ms_)); };
        hooks_.fault = [this](DiskOperation operation) {
            if (operation != DiskOperation::write) return 0;
            MutexLock lock(mutex_);
            ++writing_;
            changed_.notify_all();
            while (stalled_) lock.wait(changed_);
            return 0;
        };
        open();
    }
    void TearDown() override {
        let_go();
        NvmeTest::TearDown();
    }
    /// The writer is in the middle of a write.
    void stall() {
        MutexLock lock(mutex_);
        stalled_ = true;
        writing_ = 0;
        lock.unlock();
        put(1000, 2 * kMiB);
        lock.lock();
        while (writing_ == 0) lock.wait(changed_);
    }
    void let_go() {
        const MutexLock lock(mutex_);
        stalled_ = false;
        changed_.notify_all();
    }
    std::uint64_t dropped() { return tier_->stats().dropped; }

    std::atomic<std::int64_t> clock_ms_{1'000'000};
    Mutex mutex_;
    std::condition_variable changed_;
    bool stalled_ TIERFS_GUARDED_BY(mutex_) = false;
    unsigned writing_ TIERFS_GUARDED_BY(mutex_) = 0;
};

TEST_F(NvmeStallTest, DropsTheNewestBeyondTheShare) {
    stall();
    std::vector<std::weak_ptr<Buffer>> held;
    for (std::uint64_t number = 0; number < 16; ++number) {
        const ContentId id = object_id(number);
        BufferPtr piece = make_piece(id, 0, 2 * kMiB);
        held.emplace_back(piece);
        tier_->admit(id, 2 * kMiB, 0, std::move(piece));
    }
    const auto alive = [&] {
        return std::count_if(held.begin(), held.end(), [](const auto& one) { return !one.expired(); });
    };
    tier_->relieve();
    EXPECT_EQ(alive(), 16) << "busy, not stalled yet";
    EXPECT_EQ(dropped(), 0U);
    clock_ms_ += 2001;
    tier_->relieve();
    EXPECT_EQ(alive(), 4);
    EXPECT_EQ(dropped(), 12U);
    put(50, 2 * kMiB);
    EXPECT_EQ(dropped(), 13U) << "nothing is added while it stalls";
    let_go();
    tier_->flush();
    EXPECT_EQ(get(1000, 2 * kMiB), Got::right);
    for (std::uint64_t number = 0; number < 4; ++number) EXPECT_EQ(get(number, 2 * kMiB), Got::right);
    EXPECT_EQ(get(15, 2 * kMiB), Got::miss);
    put(15, 2 * kMiB);  // not taken for queued
    tier_->flush();
    EXPECT_EQ(get(15, 2 * kMiB), Got::right);
    EXPECT_EQ(dropped(), 13U);
}

TEST_F(NvmeStallTest, WhatIsTakenAndNotWrittenIsCounted) {
    const auto unwritten = [&] { return tier_->stats().unwritten_bytes; };
    EXPECT_EQ(unwritten(), 0U);
    stall();
    EXPECT_EQ(unwritten(), 2 * kMiB) << "in the writer's hands";
    for (std::uint64_t number = 1; number <= 8; ++number) put(number, 2 * kMiB);
    EXPECT_EQ(unwritten(), 18 * kMiB);
    clock_ms_ += 2001;
    tier_->relieve();
    EXPECT_EQ(unwritten(), 10 * kMiB) << "some is dropped";
    let_go();
    tier_->flush();
    EXPECT_EQ(unwritten(), 0U);
    put(20, 5000);  // into a chunk, which waits for more as long as the clock stands still
    EXPECT_GE(unwritten(), 5000U);
    EXPECT_TRUE(eventually([&] { return unwritten() == 5000; }));
    tier_->flush();
    EXPECT_EQ(unwritten(), 0U);
}

TEST_F(NvmeStallTest, ReadsThatGoAroundADeviceAreCounted) {
    int reading = 0;
    Got third = Got::right;
    hooks_.after_lookup = [&] {  // two that wait for the device, for too long
        const int number = ++reading;
        if (number == 1) {
            EXPECT_EQ(get(1, 5000), Got::right);
        }
        if (number != 2) return;
        clock_ms_ += 501;
        third = get(1, 5000);
    };
    open();
    put(1, 5000);
    tier_->flush();
    EXPECT_EQ(get(1, 5000), Got::right);
    EXPECT_EQ(third, Got::miss);
    EXPECT_EQ(tier_->stats().bypassed, 1U);
    EXPECT_EQ(get(1, 5000), Got::right) << "it is quick again";
    EXPECT_EQ(tier_->stats().bypassed, 1U);
    EXPECT_EQ(tier_->stats().misses, 1U);
}

TEST_F(NvmeStallTest, DropsNothingOfADeviceThatIsMerelySlow) {
    for (std::uint64_t number = 0; number < 16; ++number) {
        put(number, 2 * kMiB);
        clock_ms_ += 100;  // never two seconds for one piece
        tier_->relieve();
    }
    tier_->flush();
    clock_ms_ += 100000;
    tier_->relieve();
    put(20, 2 * kMiB);
    tier_->flush();
    EXPECT_EQ(get(20, 2 * kMiB), Got::right);
    EXPECT_EQ(dropped(), 0U);
}

}  // namespace nvme_stall_test
}  // namespace tierfs::testing
