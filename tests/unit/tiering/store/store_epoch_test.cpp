// The epoch class in the store: fill, freeze, no byte in two tiers, renewal.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/ram/ram_tier.hpp"

namespace tierfs {
namespace store_epoch_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;

constexpr std::uint64_t kSize = 16 * 1024;
constexpr std::uint64_t kPiece = kSize + RamTier::kEntryOverhead;
constexpr std::size_t kFiles = 400;

using Objects = std::vector<std::shared_ptr<const ObjectRef>>;

Objects objects(const std::string& prefix, std::size_t count = kFiles, std::uint64_t size = kSize) {
    Objects made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(fake::object(prefix + std::to_string(i), size));
    return made;
}

/// A RAM tier that keeps so many pieces, and has room for one or two that pass by.
std::uint64_t ram_for(std::uint64_t pieces, std::uint64_t size) {
    return (pieces * size + size / 2) * 32 / 31;
}

Scene scene(std::uint64_t ram_files, DatasetClass dataset_class = DatasetClass::automatic) {
    Scene made;
    made.nvme = true;
    made.ram = ram_for(ram_files, kPiece);
    made.dataset_class = dataset_class;
    return made;
}

/// Files fetched in one shuffled epoch.
std::size_t epoch(Harness& h, Objects objects, unsigned seed) {
    std::mt19937 random(seed);
    std::shuffle(objects.begin(), objects.end(), random);
    const std::size_t before = h.origin.seen().size();
    for (const auto& object : objects) h.check(object, 0, static_cast<std::uint32_t>(object->size));
    return h.origin.seen().size() - before;
}

/// Of those that pass by one or two may come again at once.
void expect_rest(std::size_t fetched, std::size_t rest) {
    EXPECT_LE(fetched, rest);
    EXPECT_GE(fetched + 2, rest);
}

TEST(StoreEpoch, FromTheSecondEpochOnBothTiersHitInFull) {
    for (const DatasetClass configured : {DatasetClass::automatic, DatasetClass::epoch}) {
        Harness h(scene(40, configured));
        h.nvme.room = 160 * kSize;
        const Objects files = objects("f");
        EXPECT_EQ(epoch(h, files, 1), kFiles);
        for (unsigned seed = 2; seed < 6; ++seed) {
            expect_rest(epoch(h, files, seed), kFiles - 200);
            EXPECT_EQ(h.nvme.admitted_bytes, 160 * kSize) << "nothing is written any more";
        }
        const DatasetStatus status = h.store->stats().datasets.back();
        EXPECT_EQ(status.current, "epoch");
        EXPECT_TRUE(status.frozen);
        EXPECT_LE(h.store->stats().ram.used_bytes, ram_for(40, kPiece));
        std::size_t in_ram = 0, in_both = 0;  // one or two of both kinds pass by
        for (const auto& object : files) {
            if (h.store->describe_location(*object) != "ram") continue;
            ++(h.nvme.contains(object->content, kSize, 0) ? in_both : in_ram);
        }
        EXPECT_GE(in_ram, 40U);
        EXPECT_LE(in_ram + in_both, 42U);
    }
}

TEST(StoreEpoch, WithoutNvmeRamIsFrozen) {
    Scene made = scene(100);
    made.nvme = false;
    Harness h(made);
    const Objects files = objects("f");
    epoch(h, files, 1);
    epoch(h, files, 2);
    for (unsigned seed = 3; seed < 6; ++seed) expect_rest(epoch(h, files, seed), kFiles - 100);
}

TEST(StoreEpoch, WhenEverythingFitsNothingIsFetchedAgain) {
    Harness h(scene(40));
    const Objects files = objects("f");
    EXPECT_EQ(epoch(h, files, 1), kFiles);
    EXPECT_EQ(epoch(h, files, 2), 0U);
    EXPECT_FALSE(h.store->stats().datasets.back().frozen);
}

TEST(StoreEpoch, FreedSpaceIsFilledAgain) {
    Scene made = scene(0, DatasetClass::epoch);
    made.ram = 0;
    Harness h(made);
    h.nvme.room = 100 * kSize;
    const Objects files = objects("f");
    epoch(h, files, 1);
    EXPECT_EQ(epoch(h, files, 2), kFiles - 100);
    EXPECT_TRUE(h.store->stats().datasets.back().frozen);
    h.nvme.room = 150 * kSize;
    epoch(h, files, 3);
    EXPECT_EQ(epoch(h, files, 4), kFiles - 150);
}

TEST(StoreEpoch, FilesReadInPiecesAreFetchedOnceAnEpochWhenFrozen) {
    Harness h(scene(4, DatasetClass::epoch));
    h.nvme.room = 0;
    const std::uint64_t size = 512 * 1024;
    for (unsigned pass = 0; pass < 3; ++pass) {
        for (int i = 0; i < 20; ++i) {
            const auto object = fake::object("p" + std::to_string(i), size);
            const std::size_t before = h.origin.seen().size();
            for (std::uint64_t at = 0; at < size; at += kSize) h.check(object, at, kSize);
            EXPECT_EQ(h.origin.seen().size(), before + 1) << pass << ' ' << i;
        }
    }
}

TEST(StoreEpoch, AnotherJobTakesOverWhatItNeeds) {
    constexpr std::uint64_t kSmall = 4096;
    Scene made = scene(0, DatasetClass::epoch);
    made.ram = ram_for(40, kSmall + RamTier::kEntryOverhead);
    Harness h(made);
    h.nvme.room = 160 * kSmall;
    const Objects first = objects("first", 3000, kSmall), second = objects("second", 3000, kSmall);
    for (unsigned seed = 1; seed < 4; ++seed) epoch(h, first, seed);
    EXPECT_EQ(h.nvme.renewals, 0);
    for (unsigned seed = 4; seed < 9; ++seed) epoch(h, second, seed);
    EXPECT_GE(h.nvme.renewals, 1);
    expect_rest(epoch(h, second, 9), 3000 - 40);  // RAM holds files of the second job
    EXPECT_GE(h.store->stats().datasets.back().renewals, 1U);
}

TEST(StoreEpoch, AScanTakesNothingFromAFrozenEpoch) {
    Harness h(scene(40));
    h.nvme.room = 160 * kSize;
    const Objects files = objects("f");
    for (unsigned seed = 1; seed < 4; ++seed) epoch(h, files, seed);
    for (int i = 0; i < 4000; ++i) {
        char name[16];
        std::snprintf(name, sizeof(name), "scan%05d", i);
        h.check(fake::object(name, 4096), 0, 4096);
    }
    EXPECT_EQ(h.store->stats().datasets.back().current, "once");
    expect_rest(epoch(h, files, 9), kFiles - 200);
    EXPECT_EQ(h.nvme.admitted_bytes, 160 * kSize);
}

TEST(StoreEpoch, ConfiguredClassesActOnNvme) {
    for (const auto& [dataset_class, kept, written] : {std::tuple{DatasetClass::hot, false, true},
                                                       {DatasetClass::epoch, true, true},
                                                       {DatasetClass::stream, true, false},
                                                       {DatasetClass::once, true, false},
                                                       {DatasetClass::automatic, true, true}}) {
        Harness h(scene(40, dataset_class));
        EXPECT_EQ(h.nvme.is_kept(), kept) << name_of(dataset_class);
        h.check(fake::object("a", kSize), 0, kSize);
        EXPECT_EQ(h.nvme.admitted_bytes > 0, written) << name_of(dataset_class);
        EXPECT_EQ(h.store->stats().datasets.back().configured, name_of(dataset_class));
    }
}

}  // namespace store_epoch_test
}  // namespace tierfs
