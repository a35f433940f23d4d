#include "config/memory_plan.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "config/memory_sources.hpp"

namespace tierfs {
namespace memory_plan_test {

constexpr std::uint64_t kMiB = 1 << 20;

TEST(ConfigMemoryPlan, TheSumNeverPassesTheLimit) {
    std::mt19937_64 random(42);
    for (int i = 0; i < 20000; ++i) {
        const std::uint64_t limit = std::max(random() >> (1 + random() % 37), 96 * kMiB);
        const std::uint64_t ram = random() % (limit + 1);
        const auto plan = MemoryPlan::divide(limit, ram).value();
        ASSERT_EQ(plan.limit, limit);
        ASSERT_LE(plan.process + plan.index + plan.names + plan.data, limit);
        ASSERT_LE(plan.ram_tier, plan.data / 4 * 3);
        ASSERT_LE(plan.ram_tier, ram);
        ASSERT_GE(plan.data, 16 * kMiB);
        const auto packing = MemoryPlan::divide(limit, ram, true, true).value();
        ASSERT_LE(packing.process + packing.index + packing.names + packing.tables + packing.data, limit);
        ASSERT_GT(packing.tables, MemoryPlan::divide(limit, ram, true).value().tables);
        ASSERT_EQ(MemoryPlan::divide(limit, ram, false, true).value().data, plan.data);
    }
}

TEST(ConfigMemoryPlan, SmallLimits) {
    EXPECT_TRUE(MemoryPlan::divide(96 * kMiB, {}));
    const auto small = MemoryPlan::divide(96 * kMiB - 1, {});
    ASSERT_FALSE(small);
    EXPECT_EQ(small.error().code, ENOMEM);
    EXPECT_NE(small.error().message.find("96M"), std::string::npos);
    const auto plan = MemoryPlan::divide(256 * kMiB, {}).value();
    EXPECT_NEAR(static_cast<double>(plan.data), 160.0 * kMiB, 10.0 * kMiB);
    EXPECT_EQ(plan.ram_tier % kMiB, 0U);
    EXPECT_GT(plan.ram_tier, 0U);
    EXPECT_EQ(MemoryPlan::divide(256 * kMiB, 0).value().ram_tier, 0U);
}

class ConfigMemoryRoots : public testing::Test {
  protected:
    void SetUp() override {
        std::string name = "/tmp/tierfs_memory_XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
        roots_ = MemoryRoots{name + "/proc", name + "/cgroup"};
        put("proc/meminfo", "MemTotal:       16777216 kB\nMemFree: 1 kB\n");  // 16 GiB
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }
    void put(const std::string& path, const std::string& text) {
        const std::filesystem::path file = folder_ / path;
        std::filesystem::create_directories(file.parent_path());
        std::ofstream(file) << text;
    }
    std::filesystem::path folder_;
    MemoryRoots roots_;
};

TEST_F(ConfigMemoryRoots, APhysicalQuarterWithoutCgroup) {
    EXPECT_EQ(default_memory_limit(roots_), 4096 * kMiB);
    put("proc/meminfo", "MemTotal: 1073741824 kB\n");
    EXPECT_EQ(default_memory_limit(roots_), 8192 * kMiB);
}

TEST_F(ConfigMemoryRoots, TheSmallestLimitUpTheTreeOfV2) {
    put("proc/self/cgroup", "0::/a/b/c\n");
    put("cgroup/a/b/c/memory.max", "max\n");
    put("cgroup/a/b/memory.max", "4294967296\n");
    put("cgroup/a/memory.max", "2147483648\n");
    EXPECT_EQ(default_memory_limit(roots_), 512 * kMiB);
}

TEST_F(ConfigMemoryRoots, V1AndInvisibleFoldersOfAContainer) {
    put("proc/self/cgroup", "5:cpu,memory:/docker/abc\n3:cpuset:/x\n");
    put("cgroup/memory/memory.limit_in_bytes", "1073741824\n");
    put("cgroup/memory.max", "1\n");
    EXPECT_EQ(default_memory_limit(roots_), 256 * kMiB);
    put("proc/self/cgroup", "garbage\n::\n0::/../..\n");
    put("cgroup/memory.max", "rubbish\n");
    EXPECT_EQ(default_memory_limit(roots_), 4096 * kMiB);
}

TEST_F(ConfigMemoryRoots, ResidentMemoryIsAnonSharedAndHuge) {
    put("proc/self/status",
        "VmRSS:\t 900 kB\nRssAnon:\t     100 kB\nRssFile: 7 kB\nRssShmem:\t 20 kB\nHugetlbPages:\t 2048 "
        "kB\n");
    EXPECT_EQ(resident_memory(roots_), (100U + 20 + 2048) * 1024);
    EXPECT_GT(resident_memory(), 0U);
}

}  // namespace memory_plan_test
}  // namespace tierfs
