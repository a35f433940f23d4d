// Backing files for readers beside the tier.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <optional>

#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace whole_file_test {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kSize = 3 * kMiB + 77;

class WholeFileTest : public NvmeTest {
  protected:
    std::optional<WholeFile> whole(std::uint64_t number) {
        return tier_->whole_file(object_id(number), kSize);
    }
    static bool is_right(const WholeFile& file, std::uint64_t number) {
        AlignedBuffer got(kSize), want(kSize);
        fill_bytes(object_id(number), 0, want.span().first(kSize));
        return ::pread(file.descriptor.get(), got.data(), kSize, 0) == static_cast<ssize_t>(kSize) &&
               std::equal(got.data(), got.data() + kSize, want.data());
    }
};

TEST_F(WholeFileTest, IsThereWhenAllOfItIs) {
    open();
    put_piece(1, kSize, 0, 2 * kMiB);
    put(2, 5000);
    tier_->flush();
    EXPECT_FALSE(whole(1));
    EXPECT_FALSE(tier_->whole_file(object_id(2), 5000)) << "packed";
    EXPECT_FALSE(whole(3));
    put_piece(1, kSize, 2 * kMiB, kSize - 2 * kMiB);
    tier_->flush();
    const auto file = whole(1);
    ASSERT_TRUE(file);
    EXPECT_TRUE(is_right(*file, 1));
    EXPECT_FALSE(tier_->whole_file(object_id(1), kSize - 1)) << "another version's size";
}

TEST_F(WholeFileTest, IsNotEvictedWhileItIsUsed) {
    open();
    put(1, kSize);
    tier_->flush();
    auto file = whole(1);
    ASSERT_TRUE(file);
    for (std::uint64_t at = 2; at < 40; ++at) {
        put(at, kSize);
        tier_->flush();
        EXPECT_LE(tier_->stats().used_bytes, options_.limit);
    }
    EXPECT_EQ(get(1, kSize), Got::right);
    EXPECT_TRUE(is_right(*file, 1));
    EXPECT_EQ(tier_->stats().state, "normal");
    file.reset();
    for (std::uint64_t at = 40; at < 80; ++at) {
        put(at, kSize);
        tier_->flush();
        for (int use = 0; use < 2; ++use) EXPECT_EQ(get(at, kSize), Got::right);  // no less used than it was
    }
    EXPECT_EQ(get(1, kSize), Got::miss);
}

TEST_F(WholeFileTest, ATierFullOfUsedFilesTakesNothingMoreAndStaysWell) {
    open();
    std::vector<WholeFile> used;
    for (std::uint64_t at = 1; at < 12; ++at) {
        put(at, kSize);
        tier_->flush();
        if (auto file = whole(at)) used.push_back(std::move(*file));
    }
    EXPECT_GE(used.size(), 4U);
    EXPECT_LE(tier_->stats().used_bytes, options_.limit);
    EXPECT_EQ(tier_->stats().state, "normal");
    for (std::size_t at = 0; at < used.size(); ++at) EXPECT_TRUE(is_right(used[at], at + 1));
}

TEST_F(WholeFileTest, WhatIsErasedWhileUsedIsOwedUntilTheEnd) {
    open();
    put(1, kSize);
    tier_->flush();
    auto file = whole(1);
    ASSERT_TRUE(file);
    tier_->erase(object_id(1));
    tier_->flush();
    EXPECT_FALSE(whole(1));
    EXPECT_TRUE(is_right(*file, 1)) << "who has it goes on";
    EXPECT_GE(tier_->stats().used_bytes, kSize);
    file.reset();
    EXPECT_LT(tier_->stats().used_bytes, kSize);
}

TEST_F(WholeFileTest, OfAnEarlierSessionIsVerifiedFirst) {
    open();
    put(1, kSize);
    tier_->flush();
    open();
    EXPECT_FALSE(whole(1));
    EXPECT_TRUE(eventually([this] { return whole(1).has_value(); }));
    EXPECT_TRUE(is_right(*whole(1), 1));
}

TEST_F(WholeFileTest, OneThatIsHeldSinceAnEarlierSessionIsKeptUnverified) {
    open();
    put(1, kSize);
    tier_->flush();
    open();
    auto held = tier_->hold(object_id(1), kSize);
    ASSERT_TRUE(held);
    for (std::uint64_t at = 2; at < 40; ++at) {
        put(at, kSize);
        tier_->flush();
    }
    EXPECT_EQ(get(1, kSize), Got::right) << "it is not evicted";
}

TEST_F(WholeFileTest, OneThatIsHeldAndGoneCountsUntilTheEnd) {
    open();
    const auto before = tier_->stats().used_bytes;
    auto held = tier_->hold(object_id(1), kSize);
    ASSERT_TRUE(held);
    EXPECT_EQ(tier_->stats().used_bytes, before + kSize);
    held.reset();
    EXPECT_EQ(tier_->stats().used_bytes, before);
}

TEST_F(WholeFileTest, OneThatWasDamagedMeanwhileIsNeverGiven) {
    open();
    put(1, kSize);
    tier_->flush();
    tier_->close();
    {
        std::fstream file(files_with(".data").at(0), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(2 * kMiB + 5);
        file.put('\x5a');
        file.put('\x5a');
    }
    open();
    EXPECT_FALSE(whole(1));
    EXPECT_TRUE(eventually([this] { return tier_->checksum_errors() > 0; }));
    tier_->flush();
    EXPECT_FALSE(whole(1));
    put(1, kSize);  // fetched again
    tier_->flush();
    EXPECT_TRUE(eventually([this] { return whole(1).has_value(); }));
    EXPECT_TRUE(is_right(*whole(1), 1));
}

}  // namespace whole_file_test
}  // namespace tierfs::testing
