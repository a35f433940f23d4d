// Small random reads of large objects that are on NVMe: no more is read than is asked for.
#include "tests/unit/tiering/store/harness.hpp"

namespace tierfs {
namespace store_exact_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;

class StoreExact : public testing::Test {
  protected:
    static Scene scene(std::uint64_t ram) {
        Scene scene;
        scene.nvme = true;
        scene.ram = ram;
        return scene;
    }
    const std::shared_ptr<const ObjectRef> big_ = fake::object("big", 64 * kMiB + 5000);
};

TEST_F(StoreExact, WithoutARamTierEachReadCostsItsOwnPages) {
    Harness h(scene(0));
    h.nvme.put(*big_, 100, 8);
    for (int i = 0; i < 3; ++i) h.check(big_, 100 * kBlockSize + 5 * 4096, 4096);
    EXPECT_EQ(h.nvme.read_bytes(), 3U * 4096);
    h.check(big_, 103 * kBlockSize + 4000, 200);  // across two pages
    EXPECT_EQ(h.nvme.read_bytes(), 5U * 4096);
    EXPECT_EQ(h.store->stats().nvme_bytes, 3U * 4096 + 200);
    EXPECT_EQ(h.store->stats().read_bytes, 3U * 4096 + 200);
    EXPECT_TRUE(h.origin.seen().empty());
}

TEST_F(StoreExact, TheSecondTouchBringsTheBlockIntoRam) {
    Harness h(scene(16 * kMiB));
    h.nvme.put(*big_, 100, 8);
    h.check(big_, 100 * kBlockSize, 4096);
    EXPECT_EQ(h.nvme.read_bytes(), 4096U);
    h.check(big_, 100 * kBlockSize + 8192, 4096);
    EXPECT_EQ(h.nvme.read_bytes(), 4096U + kBlockSize);
    h.check(big_, 100 * kBlockSize + 16384, 4096);
    EXPECT_EQ(h.nvme.read_bytes(), 4096U + kBlockSize) << "from RAM";
}

TEST_F(StoreExact, TheEndOfTheObject) {
    Harness h(scene(0));
    const std::uint64_t block = big_->size / kBlockSize;
    h.nvme.put(*big_, block, 1);
    h.check(big_, big_->size - 100, 4096);
    h.check(big_, big_->size - 4999, 4096);
    EXPECT_TRUE(h.origin.seen().empty());
}

TEST_F(StoreExact, LargerReadsAndThoseAcrossBlocksTakeWholeBlocks) {
    Harness h(scene(0));
    h.nvme.put(*big_, 100, 8);
    h.check(big_, 100 * kBlockSize, 32768);
    EXPECT_EQ(h.nvme.read_bytes(), kBlockSize);
    h.check(big_, 104 * kBlockSize - 2048, 4096);
    EXPECT_EQ(h.nvme.read_bytes(), 3 * kBlockSize);
}

TEST_F(StoreExact, WhatIsNotThereOrDamagedComesFromTheOrigin) {
    Harness h(scene(0));
    h.check(big_, 7 * kBlockSize, 4096);
    h.nvme.put(*big_, 100, 1);
    h.nvme.lie = true;
    h.check(big_, 100 * kBlockSize, 4096);
    EXPECT_EQ(h.store->stats().nvme_bytes, 0U);
    EXPECT_EQ(h.store->stats().origin_bytes, 2U * 4096);
}

}  // namespace store_exact_test
}  // namespace tierfs
