#include "bench/iobench/run/latencies.hpp"

#include <gtest/gtest.h>

#include <memory>

namespace tierfs::iobench {
namespace latencies_test {

TEST(LatenciesTest, NothingHasNoQuantiles) {
    const auto none = std::make_unique<Latencies>();
    EXPECT_EQ(none->quantile(0.5), 0);
    EXPECT_EQ(none->count(), 0U);
}

TEST(LatenciesTest, SmallOnesAreExact) {
    const auto latencies = std::make_unique<Latencies>();
    for (std::uint64_t ns = 1; ns <= 100; ++ns) latencies->add(ns);
    EXPECT_EQ(latencies->quantile(0), 1);
    EXPECT_EQ(latencies->quantile(0.5), 50);
    EXPECT_EQ(latencies->quantile(0.99), 99);
    EXPECT_EQ(latencies->quantile(0.999), 100);
    EXPECT_EQ(latencies->quantile(1), 100);
}

TEST(LatenciesTest, EveryOneIsWithinTheErrorThatIsPromised) {
    for (std::uint64_t ns = 1; ns < std::uint64_t{1} << 62; ns = ns + ns / 7 + 1) {
        const auto latencies = std::make_unique<Latencies>();
        latencies->add(ns);
        EXPECT_NEAR(latencies->quantile(0.5) / static_cast<double>(ns), 1, 0.004) << ns;
    }
    const auto latencies = std::make_unique<Latencies>();
    latencies->add(~std::uint64_t{0});
    EXPECT_NEAR(latencies->quantile(0.5) / 1.8446744073709552e19, 1, 0.004);
}

TEST(LatenciesTest, AddUp) {
    const auto fast = std::make_unique<Latencies>(), slow = std::make_unique<Latencies>();
    for (int i = 0; i < 98; ++i) fast->add(10);
    for (int i = 0; i < 2; ++i) slow->add(200);
    fast->add(*slow);
    EXPECT_EQ(fast->count(), 100U);
    EXPECT_EQ(fast->quantile(0.98), 10);
    EXPECT_EQ(fast->quantile(0.99), 200);
}

}  // namespace latencies_test
}  // namespace tierfs::iobench
