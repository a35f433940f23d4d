#include "tiering/ram/ram_tier.hpp"

#include <gtest/gtest.h>

namespace tierfs {
namespace ram_tier_test {

constexpr std::uint64_t kPiece = kBlockSize + RamTier::kEntryOverhead;

struct Bench {
    explicit Bench(std::uint64_t limit_pieces, std::uint64_t ahead_pieces = 100, unsigned shards = 1)
        : tier(RamTierOptions{limit_pieces * kPiece, ahead_pieces * kPiece, shards}) {}

    static UnitKey key(std::uint64_t n) { return UnitKey{ContentId{n, n * 77}, 0}; }
    void insert(std::uint64_t n, bool ahead = false, BlockMask blocks = 1, bool keep = false) {
        const auto buffer = arena->allocate(kBlockSize * static_cast<std::size_t>(std::popcount(blocks)));
        ASSERT_NE(buffer, nullptr);
        buffer->object_offset = static_cast<std::uint64_t>(std::countr_zero(blocks)) * kBlockSize;
        tier.insert(key(n), buffer, static_cast<std::uint32_t>(std::countr_zero(blocks)), blocks, ahead,
                    keep ? RamStay::kept : RamStay::cached);
        tier.trim();
    }
    /// A read of these blocks, to their last byte or just short of it.
    BlockMask hit(std::uint64_t n, BlockMask want = 1, bool to_end = true) {
        bool over = false;
        const BlockMask have = tier.visit(key(n), want, [&](const ArenaBufferPtr& buffer, BlockMask blocks) {
            const std::uint64_t first = buffer->object_offset / kBlockSize;
            const auto begin = (static_cast<std::uint64_t>(std::countr_zero(blocks)) - first) * kBlockSize;
            const auto end = (static_cast<std::uint64_t>(std::bit_width(blocks)) - first) * kBlockSize;
            over = buffer->give(begin, to_end ? end : end - 1) || over;
        });
        if (over) tier.over(key(n));
        return have;
    }

    std::shared_ptr<Arena> arena = *Arena::create(64 << 20, nullptr);
    RamTier tier;
};

TEST(RamTier, FindsWhatItHasAndNoMore) {
    Bench b(10);
    b.insert(1, false, 0b0110);
    EXPECT_EQ(b.hit(1, 0b1111), 0b0110U);
    EXPECT_EQ(b.hit(1, 0b1001), 0U);
    EXPECT_EQ(b.hit(2), 0U);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0b0110U);
}

TEST(RamTier, WhatIsIdleGoesAndWhatIsPinnedStays) {
    Bench b(20);
    b.tier.retain(1, Retention::pinned);
    b.tier.retain(2, Retention::stays);
    b.tier.set_time(100);
    b.insert(1);
    b.insert(2, true);
    for (const DatasetNumber dataset : {DatasetNumber{1}, DatasetNumber{2}}) {
        b.tier.insert(Bench::key(10 + dataset), b.arena->allocate(kBlockSize), 0, 1, false, RamStay::kept,
                      dataset);
    }
    b.tier.set_time(105);
    b.insert(3);
    EXPECT_EQ(b.tier.demote(109, 10), 0U);
    EXPECT_EQ(b.hit(1), 1U) << "which is a use";
    EXPECT_GT(b.tier.demote(112, 10), 0U);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 1U);
    EXPECT_EQ(b.tier.present(Bench::key(2)), 0U) << "nobody came for it";
    EXPECT_EQ(b.tier.present(Bench::key(3)), 1U);
    EXPECT_EQ(b.tier.present(Bench::key(11)), 1U) << "pinned";
    EXPECT_EQ(b.tier.present(Bench::key(12)), 0U) << "an epoch's, that nobody reads";
    b.tier.demote(1000, 10);
    EXPECT_EQ(b.tier.present(Bench::key(11)), 1U);
    EXPECT_EQ(b.arena->in_use(), kBlockSize);
    EXPECT_EQ(b.tier.stats().used_bytes + b.tier.stats().ahead_bytes, 0U);
    b.arena->return_free();
    b.insert(4);
    EXPECT_EQ(b.hit(4), 1U);
}

TEST(RamTier, KeepTakesWhatIsHereForADataset) {
    Bench b(20);
    b.insert(1);
    b.insert(2, false, 1, true);
    EXPECT_EQ(b.tier.keep(Bench::key(1), 3, true), 0U) << "it was not kept";
    EXPECT_EQ(b.tier.keep(Bench::key(2), 3, true), 1U);
    EXPECT_EQ(b.tier.keep(Bench::key(1), 3, false), 1U);
    EXPECT_EQ(b.tier.keep(Bench::key(9), 3, false), 0U);
    EXPECT_EQ(b.tier.kept_by(3), 2 * kPiece);
    EXPECT_EQ(b.tier.kept_by(0), 0U);
    EXPECT_EQ(b.tier.stats().kept_bytes, 2 * kPiece);
    EXPECT_EQ(b.tier.stats().used_bytes, 0U);
}

TEST(RamTier, KeepsItsLimit) {
    for (const unsigned shards : {1U, 4U, 16U}) {
        Bench b(20, 100, shards);
        for (std::uint64_t n = 0; n < 200; ++n) {
            b.insert(n);
            EXPECT_LE(b.tier.stats().used_bytes, 20 * kPiece);
        }
        EXPECT_EQ(b.tier.stats().used_bytes, 20 * kPiece);
        EXPECT_EQ(b.arena->in_use(), 20 * kBlockSize);
        EXPECT_EQ(b.tier.stats().evicted_bytes, 180 * kBlockSize);
    }
}

TEST(RamTier, WhatIsUsedAgainSurvivesAScan) {
    Bench b(20);
    for (std::uint64_t n = 0; n < 5; ++n) b.insert(n);
    for (int round = 0; round < 3; ++round) {
        for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(b.hit(n), 1U);
    }
    for (std::uint64_t n = 1000; n < 1100; ++n) b.insert(n);
    for (std::uint64_t n = 0; n < 5; ++n) EXPECT_EQ(b.tier.present(Bench::key(n)), 1U) << n;
}

TEST(RamTier, WhatIsKeptStaysWhateverComesAndWhatIsNotGivesWay) {
    for (const unsigned shards : {1U, 4U}) {
        Bench b(10, 100, shards);
        for (std::uint64_t n = 100; n < 110; ++n) b.insert(n);
        for (std::uint64_t n = 0; n < 6; ++n) {
            EXPECT_TRUE(b.tier.may_keep(kBlockSize));
            b.insert(n, false, 1, true);
        }
        for (std::uint64_t n = 200; n < 300; ++n) b.insert(n);
        for (std::uint64_t n = 0; n < 6; ++n) EXPECT_EQ(b.hit(n), 1U) << n;
        for (std::uint64_t n = 6; n < 9; ++n) b.insert(n, false, 1, true);
        EXPECT_FALSE(b.tier.may_keep(kBlockSize)) << "a bit is left for what passes by";
        for (std::uint64_t n = 10; n < 13; ++n) b.insert(n, false, 1, true);
        for (std::uint64_t n = 0; n < 9; ++n) EXPECT_EQ(b.hit(n), 1U) << n;
        EXPECT_EQ(b.tier.stats().kept_bytes, 9 * kPiece);
        EXPECT_EQ(b.tier.stats().used_bytes, kPiece);
        EXPECT_EQ(b.arena->in_use(), 10 * kBlockSize);
    }
}

TEST(RamTier, AUnitIsKeptFromItsLastUseOnAndGrows) {
    Bench b(10);
    b.insert(1, true, 0b11, true);
    EXPECT_EQ(b.tier.stats().kept_bytes, 0U);
    b.hit(1, 0b01, false);
    EXPECT_EQ(b.tier.stats().ahead_bytes, kPiece + kBlockSize);
    b.hit(1, 0b10);
    EXPECT_EQ(b.tier.stats().kept_bytes, kPiece + kBlockSize);
    b.insert(1, false, 0b100, true);
    EXPECT_EQ(b.tier.stats().kept_bytes, 2 * kPiece + kBlockSize);
    for (std::uint64_t n = 100; n < 200; ++n) b.insert(n);
    EXPECT_EQ(b.hit(1, 0b111), 0b111U);
}

TEST(RamTier, WhatIsNoLongerKeptGoesByUseAndOnlyFetchesTakeWhatIsKept) {
    Bench b(5);
    for (std::uint64_t n = 0; n < 4; ++n) b.insert(n, false, 1, true);
    EXPECT_EQ(b.tier.reclaim(kPiece, RamTier::Reclaim::used), 0U);
    EXPECT_GE(b.tier.reclaim(kPiece, RamTier::Reclaim::all_free), kBlockSize);
    EXPECT_EQ(b.tier.stats().kept_bytes, 3 * kPiece);
    b.tier.release_kept();
    EXPECT_EQ(b.tier.stats().kept_bytes, 0U);
    EXPECT_EQ(b.tier.stats().used_bytes, 3 * kPiece);
    for (std::uint64_t n = 100; n < 120; ++n) b.insert(n);
    for (std::uint64_t n = 0; n < 4; ++n) EXPECT_EQ(b.tier.present(Bench::key(n)), 0U) << n;
    EXPECT_EQ(b.arena->in_use(), 5 * kBlockSize);
}

TEST(RamTier, WhatIsAheadIsNotPushedOutByWhatIsNot) {
    Bench b(10);
    b.insert(1, true);
    for (std::uint64_t n = 1000; n < 1100; ++n) b.insert(n);
    EXPECT_EQ(b.hit(1), 1U);
    EXPECT_EQ(b.tier.stats().ahead_bytes, 0U) << "used: it is an ordinary entry now";
}

TEST(RamTier, WhatIsAheadHasALimitAndTheOldestGoesFirst) {
    Bench b(0, 3, 4);
    for (std::uint64_t n = 1; n <= 5; ++n) b.insert(n, true);
    EXPECT_EQ(b.tier.stats().ahead_bytes, 3 * kPiece);
    for (std::uint64_t n = 1; n <= 5; ++n) EXPECT_EQ(b.tier.present(Bench::key(n)), n > 2 ? 1U : 0U) << n;
}

TEST(RamTier, WithoutALimitForUsedDataItGoesWithItsLastByte) {
    Bench b(0);
    b.insert(1, false);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0U) << "nothing ahead: not kept at all";
    b.insert(1, true, 0b11);
    EXPECT_EQ(b.hit(1, 0b01, false), 0b01U);
    EXPECT_EQ(b.hit(1, 0b10, false), 0b10U) << "first bytes of the last block";
    EXPECT_EQ(b.hit(1, 0b10, true), 0b10U) << "its last bytes";
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0U);
    EXPECT_EQ(b.arena->in_use(), 0U);
}

TEST(RamTier, WhatPassesByGoesWhereTheUnitsEndNeverComes) {
    Bench b(0);
    b.insert(1, true, 0b0011);
    b.insert(1, true, 0b1100);  // the unit may be longer: its other blocks came straight to their reader
    EXPECT_EQ(b.hit(1, 0b1100), 0b1100U) << "out of order, as several threads read";
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0b1111U);
    EXPECT_EQ(b.hit(1, 0b0011), 0b0011U);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0U);
    EXPECT_EQ(b.arena->in_use(), 0U);
}

TEST(RamTier, BlocksThatAreHereAlreadyAreLeft) {
    Bench b(10);
    b.insert(1, false, 0b0011);
    b.insert(1, false, 0b0110);
    b.insert(1, false, 0b0011);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0b0111U);
    int pieces = 0;
    b.tier.visit(Bench::key(1), 0b0111, [&](const ArenaBufferPtr&, BlockMask) { ++pieces; });
    EXPECT_EQ(pieces, 2);
    EXPECT_EQ(b.arena->in_use(), 4 * kBlockSize);
}

TEST(RamTier, ReclaimTakesUsedDataFirstAndNothingThatIsHeld) {
    Bench b(10);
    b.insert(1);
    b.insert(2, true);
    b.insert(3);
    ArenaBufferPtr held;
    b.tier.visit(Bench::key(3), 1, [&](const ArenaBufferPtr& buffer, BlockMask) { held = buffer; });
    EXPECT_GE(b.tier.reclaim(100 * kPiece, RamTier::Reclaim::used), kBlockSize);
    EXPECT_EQ(b.tier.present(Bench::key(1)), 0U);
    EXPECT_EQ(b.tier.present(Bench::key(2)), 1U);
    EXPECT_EQ(b.tier.reclaim(kPiece, RamTier::Reclaim::used), 0U);
    EXPECT_GE(b.tier.reclaim(kPiece, RamTier::Reclaim::all_free), kBlockSize);
    EXPECT_EQ(b.tier.present(Bench::key(2)), 0U);
    EXPECT_EQ(b.tier.reclaim(kPiece, RamTier::Reclaim::all_free), 0U);
    EXPECT_EQ(b.tier.present(Bench::key(3)), 1U);
    EXPECT_EQ(b.tier.reclaim(kPiece, RamTier::Reclaim::held_too), 0U) << "let go of, but not free yet";
    EXPECT_EQ(b.tier.present(Bench::key(3)), 0U);
    EXPECT_EQ(b.arena->in_use(), kBlockSize);
    held.reset();
    EXPECT_EQ(b.arena->in_use(), 0U);
}

TEST(BlockMasks, RunsAreCutAndComplete) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> runs;
    for_each_run(~BlockMask{0}, 24,
                 [&](std::uint32_t first, std::uint32_t count) { runs.emplace_back(first, count); });
    EXPECT_EQ(runs, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 24}, {24, 24}, {48, 16}}));
    runs.clear();
    for_each_run(0b1011, 64,
                 [&](std::uint32_t first, std::uint32_t count) { runs.emplace_back(first, count); });
    EXPECT_EQ(runs, (std::vector<std::pair<std::uint32_t, std::uint32_t>>{{0, 2}, {3, 1}}));
    EXPECT_EQ(block_range(0, 64), ~BlockMask{0});
    EXPECT_EQ(block_range(63, 1), BlockMask{1} << 63U);
}

TEST(UnitLayout, KnowsWhichBlocksARangeTouches) {
    const UnitLayout layout{3 * (1 << 20) + 100, 16, false};
    EXPECT_EQ(layout.touched(0, 0, 1), 1U);
    EXPECT_EQ(layout.touched(0, kBlockSize - 1, kBlockSize + 1), 0b11U);
    EXPECT_EQ(layout.touched(1, 0, layout.size), 0xFFFFU);
    EXPECT_EQ(layout.touched(3, 0, layout.size), 1U);
    EXPECT_EQ(layout.blocks_of(3), 1U);
    EXPECT_EQ(layout.block_end(3, 0), layout.size);
}

}  // namespace ram_tier_test
}  // namespace tierfs
