// A tier that keeps what it has: it fills, and then nothing is evicted or written.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/model.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs::testing {
namespace nvme_keep_test {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kFile = 96 * 1024;

class NvmeKeepTest : public NvmeTest {
  protected:
    /// As the store does it: what has no chance is not admitted.
    bool offer(std::uint64_t number, std::uint64_t size = kFile) {
        if (!tier_->takes(size, size)) return false;
        put(number, size);
        return true;
    }
    /// Offers objects from `first` on until the tier is full; returns the number after the last.
    std::uint64_t fill(std::uint64_t first) {
        std::uint64_t number = first;
        for (std::uint64_t refused = 0; refused < 20 && number < first + 10000; ++number) {
            if (!offer(number)) ++refused;
            if (number % 4 == 0) tier_->flush();  // so that little waits when the last extent fills up
        }
        tier_->flush();
        return number;
    }
    std::set<std::uint64_t> found(std::uint64_t first, std::uint64_t end, std::uint64_t size = kFile) {
        std::set<std::uint64_t> here;
        for (std::uint64_t number = first; number < end; ++number) {
            const Got got = get(number, size);
            EXPECT_NE(got, Got::wrong);
            if (got == Got::right) here.insert(number);
        }
        return here;
    }
};

TEST_F(NvmeKeepTest, AFullTierTakesAndWritesNothingAndLosesNothing) {
    open();
    tier_->keep(true);
    const std::uint64_t end = fill(0);
    const auto here = found(0, end);
    EXPECT_GE(here.size() * kFile, options_.limit * 92 / 100);
    EXPECT_EQ(tier_->stats().evicted_bytes, 0U);
    EXPECT_EQ(tier_->stats().state, "normal");
    const std::uint64_t written = tier_->stats().written_bytes;
    for (std::uint64_t number = 20000; number < 20500; ++number) {
        EXPECT_FALSE(tier_->takes(kFile, kFile));
        put(number, kFile);  // whoever does not ask changes nothing either
    }
    tier_->flush();
    EXPECT_EQ(tier_->stats().written_bytes, written);
    EXPECT_EQ(tier_->stats().evicted_bytes, 0U);
    EXPECT_EQ(tier_->stats().state, "normal");
    EXPECT_EQ(found(0, end), here);
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeKeepTest, LargeObjectsToo) {
    open();
    tier_->keep(true);
    constexpr std::uint64_t kLarge = 3 * kMiB;
    std::uint64_t taken = 0;
    for (std::uint64_t number = 0; number < 12; ++number) {
        for (std::uint64_t offset = 0; offset < kLarge; offset += kMiB) {
            if (!tier_->takes(kLarge, kMiB)) continue;
            put_piece(number, kLarge, offset, kMiB);
            tier_->flush();
            taken += kMiB;
        }
    }
    EXPECT_GE(taken, options_.limit * 85 / 100);
    EXPECT_EQ(tier_->stats().evicted_bytes, 0U);
    EXPECT_EQ(tier_->stats().state, "normal");
    EXPECT_FALSE(tier_->takes(kLarge, kMiB));
    EXPECT_EQ(found(0, taken / kLarge, kLarge).size(), taken / kLarge);
    const std::uint64_t written = tier_->stats().written_bytes;
    put_piece(50, kLarge, 0, kMiB);
    tier_->flush();
    EXPECT_EQ(tier_->stats().written_bytes, written);
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeKeepTest, AfterARenewalOnlyWhatNobodyReadsGoes) {
    open();
    tier_->keep(true);
    const std::uint64_t end = fill(0);
    const auto before = found(0, end);
    tier_->renew();
    const auto read = found(0, end / 2);  // reads them
    EXPECT_TRUE(tier_->takes(kFile, kFile));
    fill(20000);
    EXPECT_EQ(found(0, end / 2), read);
    const auto left = found(end / 2, end);
    EXPECT_LE(left.size(), 20U) << "but what shares an extent with what was read";
    EXPECT_GT(found(20000, 20200).size(), 40U);
    EXPECT_FALSE(tier_->takes(kFile, kFile)) << "full again, of what is read";
    EXPECT_LE(disk_bytes(), options_.limit);
}

TEST_F(NvmeKeepTest, RestartsAndKillsLeaveItFull) {
    open();
    tier_->keep(true);
    const std::uint64_t end = fill(0);
    auto here = found(0, end);
    for (const bool kill : {false, true, true}) {
        if (kill) {
            kill_and_open();
        } else {
            tier_->close();
            open();
        }
        tier_->keep(true);
        EXPECT_EQ(found(0, end), here);
        fill(30000);  // the extent under way was given back to its last byte: there may be room for a bit
        EXPECT_EQ(found(0, end), here);
        EXPECT_EQ(tier_->stats().evicted_bytes, 0U);
        EXPECT_LE(tier_->stats().written_bytes, options_.limit / 16);
    }
}

TEST_F(NvmeKeepTest, SpaceThatComesBackIsFilled) {
    open();
    tier_->keep(true);
    fill(0);
    ASSERT_FALSE(tier_->takes(kFile, kFile));
    options_.limit += 2 * kMiB;
    tier_->close();
    open();
    tier_->keep(true);
    EXPECT_TRUE(tier_->takes(kFile, kFile));
    fill(40000);
    EXPECT_GT(found(40000, 40100).size(), 10U);
    EXPECT_EQ(tier_->stats().evicted_bytes, 0U);
}

TEST_F(NvmeKeepTest, WithoutKeepingTheLeastUsedGoes) {
    open();
    tier_->keep(true);
    fill(0);
    tier_->keep(false);
    EXPECT_TRUE(tier_->takes(kFile, kFile));
    for (std::uint64_t number = 50000; number < 50100; ++number) put(number, kFile);
    tier_->flush();
    EXPECT_GT(tier_->stats().evicted_bytes, 0U);
    EXPECT_GT(found(50000, 50100).size(), 80U);
}

TEST_F(NvmeKeepTest, ALoweredLimitHoldsAllTheSame) {
    open();
    tier_->keep(true);
    options_.limit = 32 * kMiB;
    open();
    tier_->keep(true);
    fill(0);
    tier_->close();
    options_.limit = 16 * kMiB;
    open();
    tier_->keep(true);
    EXPECT_TRUE(eventually([&] { return tier_->stats().used_bytes <= options_.limit; }));
}

/// Whatever is admitted, in whatever sizes: while the tier keeps, what was found once is found again, nothing
/// is evicted, and the limit holds.
TEST_F(NvmeKeepTest, Model) {
    model::check_commands(12, 200, {6, 3, 1}, [&](const model::Commands& commands) {
        TearDown();
        SetUp();
        open();
        tier_->keep(true);
        std::set<std::uint64_t> here;
        const auto size_of = [](std::uint64_t number) {
            return number % 7 == 0 ? kMiB + number * 5000 : 1 + number * 2903 % (300 * 1024);
        };
        for (const model::Command& command : commands) {
            const std::uint64_t number = command.a % 400;
            if (command.kind == 0) {
                (void)offer(number, size_of(number));
            } else if (command.kind == 1) {
                tier_->flush();
                const Got got = get(number, size_of(number));
                RC_ASSERT(got != Got::wrong);
                RC_ASSERT(got == Got::right || here.count(number) == 0);
                if (got == Got::right) here.insert(number);
            } else {
                if (command.b % 2 == 0) tier_->close();
                if (command.b % 2 == 1) tier_->abandon();
                open();
                tier_->keep(true);
            }
            RC_ASSERT(tier_->stats().evicted_bytes == 0U);
            RC_ASSERT(tier_->stats().used_bytes <= options_.limit);
            RC_ASSERT(tier_->stats().state == "normal");
        }
    });
}

}  // namespace nvme_keep_test
}  // namespace tierfs::testing
