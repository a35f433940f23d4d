#include "config/memory_plan.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace tierfs {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(MemoryPlanTest, SharesNeverExceedTheLimit) {
    for (std::uint64_t limit = 96 * kMiB; limit < (std::uint64_t{64} << 30); limit += limit / 7) {
        const auto plan = MemoryPlan::divide(limit, std::nullopt);
        ASSERT_TRUE(plan);
        EXPECT_LE(plan->process + plan->index + plan->names + plan->data, limit);
        EXPECT_LE(plan->ram_tier, plan->data);
        EXPECT_GE(plan->data, 24 * kMiB);
    }
}

TEST(MemoryPlanTest, TooSmallALimitIsRefusedWithTheLeast) {
    const auto plan = MemoryPlan::divide(95 * kMiB, std::nullopt);
    ASSERT_FALSE(plan);
    EXPECT_NE(plan.error().message.find("96"), std::string::npos);
}

TEST(MemoryPlanTest, RamLimitBoundsTheRamTier) {
    EXPECT_EQ(MemoryPlan::divide(512 * kMiB, 0)->ram_tier, 0U);
    EXPECT_EQ(MemoryPlan::divide(512 * kMiB, 10 * kMiB)->ram_tier, 10 * kMiB);
    const auto plan = MemoryPlan::divide(512 * kMiB, 511 * kMiB);
    EXPECT_LT(plan->ram_tier, plan->data);
}

TEST(MemoryPlanTest, ResidentMemoryGrowsWithWhatIsTouched) {
    const std::uint64_t before = resident_memory();
    const std::vector<char> touched(64 * kMiB, 'x');
    EXPECT_GE(resident_memory(), before + 48 * kMiB) << touched.size();
}

TEST(MemoryPlanTest, TheDefaultLimitIsUsable) {
    EXPECT_GE(default_memory_limit(), 96 * kMiB);
    EXPECT_LE(default_memory_limit(), std::uint64_t{8} << 30);
}

}  // namespace
}  // namespace tierfs
