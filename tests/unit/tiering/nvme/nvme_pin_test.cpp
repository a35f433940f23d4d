// What is pinned by path: taken over, written again, let go.
#include "tests/unit/script.hpp"
#include "tests/unit/tiering/nvme/nvme_fixture.hpp"

namespace tierfs {
namespace nvme_pin_test {

using testing::Got;
using testing::make_piece;
using testing::object_id;

constexpr std::uint64_t kFile = 60 * 1024, kLarge = 3 << 20;
constexpr DatasetNumber kA = 0, kPin = 1, kOther = 2;

class NvmePinTest : public testing::NvmeTest {
  protected:
    void start() {
        open();
        retain();
    }
    void retain() {
        tier_->retain(kA, Retention::goes);
        tier_->retain(kPin, Retention::pinned);
        tier_->retain(kOther, Retention::pinned);
    }
    void put_for(std::uint64_t number, DatasetNumber dataset, std::uint64_t size = kFile) {
        const ContentId id = object_id(number);
        tier_->admit(id, size, 0, make_piece(id, 0, size), dataset);
    }
    bool take_over(std::uint64_t number, DatasetNumber dataset, DatasetNumber from,
                   std::uint64_t size = kFile) {
        return tier_->take_over(object_id(number), size, dataset, from);
    }
    /// Three times what the tier holds.
    void pass_by() {
        static std::uint64_t next = 100'000;
        for (int i = 0; i < 800; ++i) {
            put_for(next++, kA);
            if (i % 8 == 0) tier_->flush();
        }
        tier_->flush();
    }
};

TEST_F(NvmePinTest, WhatSharesAnExtentIsWrittenAgain) {
    start();
    for (std::uint64_t number = 0; number < 10; ++number) put_for(number, kA);
    tier_->flush();
    EXPECT_FALSE(take_over(3, kPin, kPin)) << "others lie there too";
    const std::uint64_t written = tier_->stats().written_bytes;
    put_for(3, kA);
    tier_->flush();
    EXPECT_EQ(tier_->stats().written_bytes, written) << "it is here already";
    put_for(3, kPin);
    tier_->flush();
    EXPECT_GT(tier_->stats().written_bytes, written);
    EXPECT_TRUE(take_over(3, kPin, kPin));
    pass_by();
    EXPECT_EQ(get(3, kFile), Got::right);
    EXPECT_EQ(get(4, kFile), Got::miss);
    EXPECT_EQ(tier_->stats().state, "normal");
}

TEST_F(NvmePinTest, TheCopyThatIsPinnedWinsOverOneOnItsWay) {
    start();
    put_for(1, kA);
    put_for(1, kPin);  // both wait for the writer, or lie in a chunk
    tier_->flush();
    EXPECT_TRUE(take_over(1, kPin, kPin));
    pass_by();
    EXPECT_EQ(get(1, kFile), Got::right);
}

TEST_F(NvmePinTest, AFileOfItsOwnChangesItsDataset) {
    start();
    put_for(1, kA, kLarge);
    tier_->flush();
    EXPECT_TRUE(take_over(1, kPin, kPin, kLarge));
    EXPECT_GE(tier_->used_by(kPin), kLarge);
    pass_by();
    EXPECT_EQ(get(1, kLarge), Got::right);
    tier_->disown(kPin);
    EXPECT_EQ(tier_->used_by(kPin), 0U);
    pass_by();
    EXPECT_EQ(get(1, kLarge), Got::miss);
}

TEST_F(NvmePinTest, PiecesThatWaitedForAnotherDatasetAreTakenAlong) {
    start();
    const ContentId id = object_id(1);
    for (std::uint64_t offset = 0; offset < kLarge; offset += 1 << 20)
        tier_->admit(id, kLarge, offset, make_piece(id, offset, 1 << 20), kA);
    tier_->admit(id, kLarge, 0, make_piece(id, 0, 1 << 20), kPin);
    tier_->flush();
    pass_by();
    EXPECT_EQ(get(1, kLarge), Got::right);
}

TEST_F(NvmePinTest, WhatAnEarlierRunLeftStaysUntilItIsKnown) {
    start();
    for (std::uint64_t number = 0; number < 40; ++number) put_for(number, kPin);
    put_for(50, kPin, kLarge);
    for (std::uint64_t number = 60; number < 70; ++number) put_for(number, kA);
    tier_->flush();
    kill_and_open();
    retain();
    tier_->retain(kUnknownDataset, Retention::pinned);
    pass_by();
    for (std::uint64_t number = 0; number < 40; ++number) EXPECT_EQ(get(number, kFile), Got::right) << number;
    EXPECT_EQ(get(65, kFile), Got::right) << "it may have been pinned, too";
    for (std::uint64_t number = 0; number < 40; ++number)
        EXPECT_TRUE(take_over(number, kPin, kUnknownDataset)) << number;
    EXPECT_TRUE(take_over(50, kPin, kUnknownDataset, kLarge));
    tier_->retain(kUnknownDataset, Retention::goes);
    pass_by();
    for (std::uint64_t number = 0; number < 40; ++number) EXPECT_EQ(get(number, kFile), Got::right) << number;
    EXPECT_EQ(get(50, kLarge), Got::right);
    EXPECT_EQ(get(65, kFile), Got::miss);
    EXPECT_EQ(tier_->stats().state, "normal") << "full of what stays is no fault";
}

TEST_F(NvmePinTest, ARoundMovesExtentsToTheOtherNumber) {
    start();
    for (std::uint64_t number = 0; number < 40; ++number) put_for(number, kPin);  // two extents and a bit
    tier_->flush();
    EXPECT_TRUE(take_over(0, kOther, kPin));
    EXPECT_TRUE(take_over(1, kOther, kPin)) << "in the same extent";
    EXPECT_FALSE(take_over(39, kOther, kPin)) << "its extent is still being written";
    EXPECT_GT(tier_->used_by(kOther), 0U);
    tier_->disown(kPin);
    pass_by();
    EXPECT_EQ(get(0, kFile), Got::right);
}

TEST_F(NvmePinTest, TheExtentUnderWayIsLetGoToo) {
    start();
    for (std::uint64_t number = 0; number < 3; ++number) put_for(number, kPin);
    tier_->flush();
    tier_->retain(kPin, Retention::passes);
    tier_->disown(kPin);
    tier_->flush();
    EXPECT_EQ(tier_->used_by(kPin), 0U);
    EXPECT_EQ(get(1, kFile), Got::right) << "it may stay as long as nobody needs the room";
    put_for(3, kPin);  // into an extent of its own
    tier_->flush();
    EXPECT_GT(tier_->used_by(kPin), 0U);
    pass_by();
    EXPECT_EQ(get(1, kFile), Got::miss);
}

#ifdef TIERFS_TEST_POINTS
TEST_F(NvmePinTest, ALaterPinIsNotLetGo) {
    start();
    put_for(50, kPin, kLarge);
    put_for(1, kPin);
    Script script;
    script.once("nvme.pack.committed", [&] {  // on the writer's thread: it comes to the rest later
        tier_->retain(kPin, Retention::passes);
        tier_->disown(kPin);
        tier_->retain(kPin, Retention::pinned);
        EXPECT_TRUE(take_over(50, kPin, kPin, kLarge));
    });
    tier_->flush();
    EXPECT_EQ(script.passed("nvme.pack.committed"), 1U);
    tier_->flush();
    pass_by();
    EXPECT_EQ(get(1, kFile), Got::right);
    EXPECT_EQ(get(50, kLarge), Got::right);
}
#endif

}  // namespace nvme_pin_test
}  // namespace tierfs
