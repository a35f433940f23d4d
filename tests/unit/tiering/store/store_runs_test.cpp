// The fill of a mount from a pack: stretches of extents instead of files.
#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/ram/ram_tier.hpp"

namespace tierfs {
namespace store_runs_test {

using fake::FakeOrigin;
using fake::FakePack;
using fake::Harness;
using fake::Scene;

constexpr std::uint64_t kSize = 64 * 1024;
constexpr std::size_t kFiles = 90;

std::string path_of(std::size_t number) {
    return "f" + std::to_string(100 + number);
}

Scene scene() {
    Scene made;
    made.nvme = true;
    made.ram = 11 * (kSize + RamTier::kEntryOverhead);
    made.dataset_class = DatasetClass::epoch;
    for (std::size_t i = 0; i < kFiles; ++i) {
        DirectoryEntry entry;
        entry.name = path_of(i);
        entry.attributes.kind = ObjectKind::file;
        entry.attributes.size = kSize;
        entry.attributes.version = "v1";
        made.listings[""].push_back(entry);
    }
    made.packs = [](FakePack& pack) {
        for (std::size_t i = 0; i < kFiles; ++i) pack.put(path_of(i), kSize);
    };
    return made;
}

/// With something more done to the pack.
Scene scene_with(const std::function<void(FakePack&)>& change) {
    Scene made = scene();
    made.packs = [packs = made.packs, change](FakePack& pack) {
        packs(pack);
        change(pack);
    };
    return made;
}

bool eventually(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!condition()) {
        if (std::chrono::steady_clock::now() > deadline) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
}

void check_all(Harness& h) {
    for (std::size_t i = 0; i < kFiles; ++i) h.check(fake::object(path_of(i), kSize), 0, kSize);
}

TEST(StoreRuns, BringNeighboursByOneRequest) {
    Harness h(scene());
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes == kFiles * kSize; }));
    const auto runs = h.pack.runs();
    EXPECT_EQ(runs.size(), 6U) << "of 1 MiB: 15 files, and the tables between them";
    EXPECT_EQ(h.nvme.packed_runs, 6);
    EXPECT_EQ(h.store->stats().datasets.back().filled_bytes, kFiles * kSize);
    EXPECT_GT(h.store->stats().ram.used_bytes, 9 * kSize) << "what there is room for can be read at once";
    EXPECT_LE(h.store->stats().ram.used_bytes, scene().ram);
    check_all(h);
    EXPECT_TRUE(h.origin.seen().empty());
}

TEST(StoreRuns, WhatIsDamagedIsReadByItself) {
    Harness h(scene_with([](FakePack& pack) { pack.damaged = {path_of(3), path_of(89)}; }));
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes == kFiles * kSize; }));
    const auto seen = h.origin.seen();
    ASSERT_EQ(seen.size(), 2U);
    EXPECT_EQ(seen[0], (FakeOrigin::Seen{path_of(3), 0, kSize, Priority::fill}));
    EXPECT_EQ(seen[1].path, path_of(89)) << "also at the end";
    check_all(h);
}

TEST(StoreRuns, WhatARunDoesNotBringIsReadFileByFile) {
    Harness h(scene_with([](FakePack& pack) { pack.fails = true; }));
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes == kFiles * kSize; }));
    EXPECT_EQ(h.origin.seen().size(), kFiles);
    EXPECT_EQ(h.nvme.packed_runs, 0);
    check_all(h);
}

TEST(StoreRuns, WhatIsPresentAndWhatIsNotPackedIsLeftOut) {
    Scene made = scene();
    made.packs = [](FakePack& pack) {
        for (std::size_t i = 0; i < kFiles; ++i)
            if (i != 70) pack.put(path_of(i), kSize);
    };
    made.before_open = [](fake::FakeNvme& nvme) {
        for (std::size_t i = 0; i < 60; i += 2) nvme.put(*fake::object(path_of(i), kSize), 0, 1);
    };
    Harness h(made);
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes == 60 * kSize; }));
    std::size_t brought = 0;
    for (const auto count : h.pack.runs()) brought += count;
    EXPECT_EQ(brought, 59U);
    const auto seen = h.origin.seen();
    ASSERT_EQ(seen.size(), 1U);
    EXPECT_EQ(seen[0].path, path_of(70));
    check_all(h);
}

TEST(StoreRuns, WhereTheTierIsFullRamTakesTheRest) {
    Scene made = scene();
    made.before_open = [](fake::FakeNvme& nvme) { nvme.room = 40 * kSize; };
    Harness h(made);
    ASSERT_TRUE(eventually([&] { return h.origin.seen().size() >= 8; })) << "one by one";
    ASSERT_TRUE(h.store->stop());
    EXPECT_LE(h.nvme.admitted_bytes, 55 * kSize) << "the run under way was one too many";
    EXPECT_LE(h.store->stats().ram.used_bytes, 2 * made.ram) << "what was copied goes as it is read";
    EXPECT_LE(h.origin.seen().size(), 12U);
}

TEST(StoreRuns, ReadersDoNotWaitForThem) {
    Harness h(scene_with([](FakePack& pack) { pack.holds = true; }));
    ASSERT_TRUE(eventually([&] { return !h.pack.runs().empty(); }));
    h.check(fake::object(path_of(4), kSize), 0, kSize);
    ASSERT_EQ(h.origin.seen().size(), 1U);
    EXPECT_EQ(h.origin.seen()[0].priority, Priority::demand);
    h.pack.release();
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes >= kFiles * kSize; }));
    check_all(h);
    EXPECT_EQ(h.origin.seen().size(), 1U);
}

TEST(StoreRuns, WaitForATierThatIsSlow) {
    Scene made = scene();
    made.arena = 16 << 20;  // 2 MiB of it for runs, 256 KiB for each
    made.before_open = [](fake::FakeNvme& nvme) { nvme.keeps_packed = true; };
    Harness h(made);
    ASSERT_TRUE(eventually([&] { return h.nvme.packed_runs >= 8; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LE(h.nvme.packed_runs, 12) << "of some 30";
    EXPECT_GT(h.store->stats().ram.used_bytes, 0U) << "what readers could use is not given up for them";
    h.nvme.write_all_packed();
    ASSERT_TRUE(eventually([&] { return h.nvme.admitted_bytes == kFiles * kSize; }));
    check_all(h);
}

TEST(StoreRuns, StopWaitsForThoseUnderWay) {
    Harness h(scene_with([](FakePack& pack) { pack.holds = true; }));
    ASSERT_TRUE(eventually([&] { return !h.pack.runs().empty(); }));
    EXPECT_FALSE(h.store->stop(std::chrono::milliseconds(20)));
    h.pack.release();
    EXPECT_TRUE(h.store->stop());
}

}  // namespace store_runs_test
}  // namespace tierfs
