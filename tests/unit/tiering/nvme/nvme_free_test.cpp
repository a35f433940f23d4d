// nvme.keep_free: the tier gives way while others fill its device, and comes back when they go.
#include <atomic>
#include <thread>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"
#include "tiering/nvme/device_limits.hpp"

namespace tierfs::testing {
namespace nvme_free_test {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(LimitBesideOthers, IsWhatTheyLeaveAndGrowsInSteps) {
    const auto limit = [](std::uint64_t used, std::uint64_t available, std::uint64_t now) {
        return limit_beside_others(1000, 100, used, available, now, 50);
    };
    EXPECT_EQ(limit(0, 5000, 1000), 1000U);
    EXPECT_EQ(limit(400, 300, 1000), 600U);
    EXPECT_EQ(limit(400, 299, 600), 599U) << "less at once";
    EXPECT_EQ(limit(400, 340, 600), 600U) << "more in steps";
    EXPECT_EQ(limit(400, 350, 600), 650U);
    EXPECT_EQ(limit(400, 5000, 990), 1000U) << "the last step may be short";
    EXPECT_EQ(limit(60, 30, 600), 0U);
    EXPECT_EQ(limit_beside_others(1000, ~std::uint64_t{0}, 400, 300, 600, 50), 0U);
}

class NvmeFreeTest : public NvmeTest {
  protected:
    void SetUp() override {
        NvmeTest::SetUp();
        options_.limit = 64 * kMiB;
        options_.keep_free = 10 * kMiB;
        hooks_.probe_interval = std::chrono::milliseconds(5);
        hooks_.available = [this](const auto&) {
            const std::uint64_t taken = disk_bytes() + others_;
            return disk_ - std::min(disk_, taken);
        };
    }
    void fill() {
        for (std::uint64_t number = 0; number < 80; ++number) put(number, kMiB / 2);
        tier_->flush();
    }
    std::uint64_t readable() {
        std::uint64_t count = 0;
        for (std::uint64_t number = 0; number < 80; ++number) count += get(number, kMiB / 2) == Got::right;
        return count;
    }
    std::uint64_t disk_ = 100 * kMiB;
    std::atomic<std::uint64_t> others_{0};
};

TEST_F(NvmeFreeTest, GivesWayWithWhatItKeepsAndComesBack) {
    open();
    tier_->keep(true);
    fill();
    ASSERT_EQ(readable(), 80U);
    EXPECT_EQ(tier_->stats().limit_bytes, 64 * kMiB);
    others_ = 70 * kMiB;
    ASSERT_TRUE(eventually([&] { return disk_bytes() <= 20 * kMiB; }));
    EXPECT_LE(tier_->stats().limit_bytes, 20 * kMiB);
    const std::uint64_t left = readable();
    EXPECT_GT(left, 10U) << "no more goes than must";
    EXPECT_LT(left, 40U);
    fill();
    EXPECT_LE(disk_bytes(), 20 * kMiB) << "what comes meanwhile does not take the room of others";
    others_ = 0;
    ASSERT_TRUE(eventually([&] { return tier_->stats().limit_bytes == 64 * kMiB; }));
    fill();
    EXPECT_EQ(readable(), 80U);
    EXPECT_EQ(tier_->stats().state, "normal");
}

TEST_F(NvmeFreeTest, WithNoRoomAtAllNothingIsWritten) {
    others_ = 95 * kMiB;
    open();
    EXPECT_EQ(tier_->stats().limit_bytes, 0U);
    EXPECT_FALSE(tier_->takes(kMiB / 2, kMiB / 2));
    fill();
    EXPECT_EQ(disk_bytes(), 0U);
    EXPECT_EQ(readable(), 0U);
    EXPECT_EQ(tier_->stats().state, "normal") << "the device is well";
}

TEST_F(NvmeFreeTest, BetweenTwoLooksNothingIsWrittenBelowIt) {
    hooks_.probe_interval = std::chrono::hours(1);
    open();
    others_ = 95 * kMiB;
    fill();
    EXPECT_EQ(disk_bytes(), 0U);
    EXPECT_EQ(tier_->stats().state, "full") << "its limit does not say so yet";
}

TEST_F(NvmeFreeTest, WithoutItTheLimitStays) {
    options_.keep_free = 0;
    disk_ = 300 * kMiB;
    open();
    tier_->keep(true);
    fill();
    others_ = 70 * kMiB;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_EQ(tier_->stats().limit_bytes, 64 * kMiB);
    EXPECT_EQ(readable(), 80U);
}

}  // namespace nvme_free_test
}  // namespace tierfs::testing
