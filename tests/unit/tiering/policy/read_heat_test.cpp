#include "tiering/policy/read_heat.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

namespace tierfs {
namespace read_heat_test {

ContentId id_of(std::uint64_t number) {
    return content_id("test", std::to_string(number), "1");
}

TEST(ReadHeat, CountsUpToThree) {
    ReadHeat heat;
    EXPECT_EQ(heat.get(id_of(1)), 0U);
    for (unsigned read = 1; read <= 6; ++read) {
        heat.read(id_of(1), 0, 4096, 4096);
        EXPECT_EQ(heat.get(id_of(1)), std::min(read, 3U));
    }
    heat.set(id_of(1), 2);
    EXPECT_EQ(heat.get(id_of(1)), 2U);
    heat.set(id_of(1), 9);
    EXPECT_EQ(heat.get(id_of(1)), 3U);
    heat.set(id_of(1), 0);
    EXPECT_EQ(heat.get(id_of(1)), 0U);
    EXPECT_EQ(heat.get(id_of(2)), 0U);
}

TEST(ReadHeat, AnObjectReadInPiecesIsReadOnce) {
    ReadHeat heat;
    constexpr std::uint64_t kObjects = 1000, kPieces = 8;
    for (std::uint64_t object = 0; object < kObjects; ++object) {
        for (std::uint64_t piece = 0; piece < kPieces; ++piece)
            heat.read(id_of(object), piece * 65536, 65536, kPieces * 65536);
        ASSERT_EQ(heat.get(id_of(object)), 1U);
    }
    heat.read(id_of(0), 0, 0, 100);
    heat.read(id_of(0), 0, 0, 0);
    EXPECT_EQ(heat.get(id_of(0)), 1U);
    std::uint64_t counted = 0;  // of reads of a sixteenth each
    for (std::uint64_t object = kObjects; object < 4 * kObjects; ++object) {
        heat.read(id_of(object), object % 16 * 4096, 4096, 65536);
        counted += heat.get(id_of(object));
    }
    EXPECT_NEAR(static_cast<double>(counted), 3.0 * kObjects / 16, kObjects / 16.0);
}

TEST(ReadHeat, TellsHotFromColdAmongFarMoreObjectsThanCounters) {
    ReadHeat heat;
    constexpr std::uint64_t kHot = 1000;
    std::uint64_t cold = kHot;
    for (int round = 0; round < 40; ++round) {
        for (std::uint64_t hot = 0; hot < kHot; ++hot) {
            heat.read(ContentId{hot * 0x9E3779B97F4A7C15U, hot}, 0, 1, 1);
            for (int each = 0; each < 150; ++each, ++cold)
                heat.read(ContentId{cold * 0x9E3779B97F4A7C15U, cold}, 0, 1, 1);
        }
    }
    ASSERT_GT(cold, 2 * ReadHeat::kCounters);
    std::uint64_t hot_kept = 0, cold_kept = 0;
    for (std::uint64_t number = 0; number < kHot; ++number) {
        hot_kept += heat.get(ContentId{number * 0x9E3779B97F4A7C15U, number}) >= 2 ? 1 : 0;
        const std::uint64_t other = cold + number;
        cold_kept += heat.get(ContentId{other * 0x9E3779B97F4A7C15U, other}) >= 2 ? 1 : 0;
    }
    EXPECT_GT(hot_kept, kHot * 8 / 10);
    EXPECT_LT(cold_kept, kHot * 3 / 10);
}

TEST(ReadHeat, ThreadsThatCountTogetherLoseNothing) {
    ReadHeat heat;
    std::vector<std::thread> threads;
    for (unsigned seed = 0; seed < 3; ++seed) {
        threads.emplace_back([&] {
            for (std::uint64_t number = 0; number < 64; ++number)  // some share words
                heat.read(ContentId{number, 7}, 0, 1, 1);
        });
    }
    for (auto& thread : threads) thread.join();
    for (std::uint64_t number = 0; number < 64; ++number) EXPECT_EQ(heat.get(ContentId{number, 7}), 3U);
}

TEST(GhostTable, RemembersForAWindowAndOnce) {
    GhostTable ghosts;
    const std::uint64_t start = std::uint64_t{1} << 43;  // 32 bits of 4 KiB have come round before
    ghosts.put(id_of(1), start);
    ghosts.put(id_of(2), start);
    EXPECT_FALSE(ghosts.take(id_of(3), start, 1 << 20));
    EXPECT_TRUE(ghosts.take(id_of(1), start + (1 << 20), 1 << 20));
    EXPECT_FALSE(ghosts.take(id_of(1), start + (1 << 20), 1 << 20)) << "taken";
    EXPECT_FALSE(ghosts.take(id_of(2), start + (2 << 20), 1 << 20)) << "too long ago";
    ghosts.put(id_of(1), start + (2 << 20));
    ghosts.put(id_of(1), start + (3 << 20));
    EXPECT_TRUE(ghosts.take(id_of(1), start + (4 << 20), 1 << 20)) << "the last time counts";
    EXPECT_FALSE(ghosts.take(id_of(1), start + (4 << 20), 1 << 20)) << "and there is but one";
}

TEST(GhostTable, TheOldestGoFirst) {
    GhostTable ghosts;
    constexpr std::uint64_t kMost = 400000, kRecent = 60000;
    for (std::uint64_t number = 0; number < kMost; ++number) ghosts.put(id_of(number), number * 4096);
    std::uint64_t recent = 0, old = 0;
    for (std::uint64_t number = 0; number < kRecent; ++number) {
        recent += ghosts.take(id_of(kMost - 1 - number), kMost * 4096, UINT64_MAX) ? 1 : 0;
        old += ghosts.take(id_of(number), kMost * 4096, UINT64_MAX) ? 1 : 0;
    }
    EXPECT_GT(recent, kRecent * 95 / 100);
    EXPECT_LT(old, kRecent / 50);
}

}  // namespace read_heat_test
}  // namespace tierfs
