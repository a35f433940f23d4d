// Several datasets in one tier: whose extents and files go for whose.
#include <set>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs {
namespace nvme_share_test {

using testing::Got;
using testing::make_piece;
using testing::object_id;

constexpr std::uint64_t kFile = 60 * 1024;
constexpr DatasetNumber kA = 0, kB = 1;

class NvmeShareTest : public testing::NvmeTest {
  protected:
    void put_for(std::uint64_t number, DatasetNumber dataset, std::uint64_t size = kFile) {
        const ContentId id = object_id(number);
        tier_->admit(id, size, 0, make_piece(id, 0, size), dataset);
    }
    /// Puts objects from `first` on as long as they are taken, `most` of them at most; returns the end.
    std::uint64_t fill(std::uint64_t first, DatasetNumber dataset, std::uint64_t most = 2000) {
        std::uint64_t number = first;
        for (; number < first + most && tier_->takes(kFile, kFile, dataset); ++number) {
            put_for(number, dataset);
            if (number % 8 == 0) tier_->flush();
        }
        tier_->flush();
        return number;
    }
    std::uint64_t here(std::uint64_t first, std::uint64_t end) {
        std::uint64_t count = 0;
        for (std::uint64_t number = first; number < end; ++number) {
            const Got got = get(number, kFile);
            EXPECT_NE(got, Got::wrong);
            count += got == Got::right ? 1 : 0;
        }
        return count;
    }
};

TEST_F(NvmeShareTest, TheFirstToFreezeGivesTheSecondItsHalf) {
    open();
    tier_->retain(kA, Retention::stays);
    tier_->retain(kB, Retention::stays);
    const std::uint64_t end = fill(0, kA);
    EXPECT_GE(tier_->used_by(kA), options_.limit * 9 / 10) << "all of it while nobody else wants some";
    const std::uint64_t end_b = fill(10000, kB);
    EXPECT_LT(end_b, 12000U) << "it ends";
    EXPECT_GE(tier_->used_by(kB), options_.limit * 4 / 10);
    EXPECT_GE(tier_->used_by(kA), options_.limit * 4 / 10);
    EXPECT_GE(here(0, end) * kFile, options_.limit * 35 / 100);
    EXPECT_GE(here(10000, end_b) * kFile, options_.limit * 35 / 100);
    const std::uint64_t written = tier_->stats().written_bytes;
    EXPECT_FALSE(tier_->takes(kFile, kFile, kA)) << "and no war about it";
    EXPECT_FALSE(tier_->takes(kFile, kFile, kB));
    EXPECT_EQ(tier_->stats().written_bytes, written);
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeShareTest, WhatPassesTakesOnlyWhatIsFreeAndGoesFirst) {
    open();
    tier_->retain(kA, Retention::stays);
    tier_->retain(kB, Retention::passes);
    const std::uint64_t end = fill(0, kA, 100);
    const std::uint64_t end_b = fill(10000, kB);
    EXPECT_EQ(here(0, end), 100U) << "nothing went for it";
    EXPECT_GE(here(10000, end_b), 50U) << "and it had the rest";
    fill(1000, kA);
    EXPECT_EQ(here(0, end), 100U);
    EXPECT_GE(tier_->used_by(kA), options_.limit * 85 / 100) << "until that was wanted";
}

TEST_F(NvmeShareTest, WhatIsPinnedStaysWhateverComes) {
    open();
    tier_->retain(kA, Retention::goes);
    tier_->retain(kB, Retention::pinned);
    fill(0, kA, 500);
    const std::uint64_t end = fill(10000, kB, 100);
    EXPECT_EQ(end, 10100U) << "room is made for it";
    for (int round = 0; round < 3; ++round) fill(20000 + 1000 * static_cast<std::uint64_t>(round), kA, 500);
    EXPECT_EQ(here(10000, end), 100U);
    const std::uint64_t full = fill(11000, kB);
    EXPECT_LT(full, 13000U) << "refused when there is nothing but pins";
    EXPECT_GE(tier_->used_by(kB), options_.limit * 85 / 100);
    EXPECT_EQ(here(10000, end), 100U);
    EXPECT_EQ(tier_->stats().state, "normal");
}

TEST_F(NvmeShareTest, BackingFilesToo) {
    open();
    tier_->retain(kA, Retention::stays);
    tier_->retain(kB, Retention::pinned);
    constexpr std::uint64_t kLarge = 3 << 20;
    for (std::uint64_t number = 0; number < 5; ++number) {
        put_for(number, kA, kLarge);
        tier_->flush();
    }
    put_for(100, kB, kLarge);
    put_for(101, kB, kLarge);
    tier_->flush();
    EXPECT_EQ(get(100, kLarge), Got::right);
    EXPECT_EQ(get(101, kLarge), Got::right);
    EXPECT_GE(tier_->used_by(kB), 2 * kLarge);
}

TEST_F(NvmeShareTest, AfterARestartWhatIsReadIsClaimed) {
    open();
    tier_->retain(kA, Retention::stays);
    const std::uint64_t end = fill(0, kA);
    open();
    tier_->retain(kA, Retention::stays);
    tier_->retain(kB, Retention::stays);
    EXPECT_EQ(tier_->used_by(kA), 0U) << "nobody has said whose it is";
    fill(10000, kB);
    EXPECT_LE(tier_->used_by(kB), 3U << 20) << "and nobody takes more than is free";
    for (std::uint64_t number = 0; number < end; ++number) tier_->claim(object_id(number), kA);
    EXPECT_GE(tier_->used_by(kA), options_.limit * 75 / 100);
    const std::uint64_t before = tier_->used_by(kB);
    tier_->claim(object_id(0), kB);
    EXPECT_EQ(tier_->used_by(kB), before) << "claimed once";
    EXPECT_TRUE(tier_->takes(kFile, kFile, kB)) << "now its share is known";
}

TEST_F(NvmeShareTest, AnExtentHoldsOneDataset) {
    open();
    for (std::uint64_t number = 0; number < 12; ++number) {
        put_for(number, static_cast<DatasetNumber>(number % 6));  // more than packers at a time
        if (number % 6 == 5) tier_->flush();
    }
    tier_->flush();
    EXPECT_EQ(here(0, 12), 12U);
    for (DatasetNumber dataset = 0; dataset < 6; ++dataset) EXPECT_GT(tier_->used_by(dataset), 0U);
    EXPECT_GE(files_with(".extent").size(), 6U);
}

}  // namespace nvme_share_test
}  // namespace tierfs
