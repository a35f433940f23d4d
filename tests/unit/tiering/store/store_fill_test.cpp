// The fill: in storage order, what is missing, below readers, until the tiers are full.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <map>
#include <set>

#include "tests/unit/script.hpp"
#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/ram/ram_tier.hpp"

namespace tierfs {
namespace store_fill_test {

using fake::FakeOrigin;
using fake::Harness;
using fake::Scene;

constexpr std::uint64_t kSize = 64 * 1024;
constexpr std::size_t kFiles = 95;  // in three directories

DirectoryEntry entry(const std::string& name, ObjectKind kind, std::uint64_t size) {
    DirectoryEntry made;
    made.name = name;
    made.attributes.kind = kind;
    made.attributes.size = size;
    made.attributes.version = "v1";
    return made;
}

std::string path_of(std::size_t number) {
    static const char* const folders[] = {"", "a/", "b/c/"};
    char name[8];
    std::snprintf(name, sizeof(name), "f%03zu", number);
    return folders[number / 32] + std::string(name);
}

Scene scene(DatasetClass dataset_class = DatasetClass::epoch) {
    Scene made;
    made.nvme = true;
    made.ram = 21 * (kSize + RamTier::kEntryOverhead);  // 20 of them kept
    made.dataset_class = dataset_class;
    made.listings[""] = {entry("a", ObjectKind::directory, 0), entry("b", ObjectKind::directory, 0),
                         entry("empty", ObjectKind::file, 0), entry("gone", ObjectKind::directory, 0),
                         entry("link", ObjectKind::symlink, 9)};
    made.listings["b"] = {entry("c", ObjectKind::directory, 0)};
    for (std::size_t i = 0; i < kFiles; ++i) {
        const std::string path = path_of(i);
        const std::size_t slash = path.rfind('/');
        made.listings[slash == std::string::npos ? "" : path.substr(0, slash)].push_back(
            entry(path.substr(slash + 1), ObjectKind::file, kSize));
    }
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

TEST(StoreFill, BringsEverythingInStorageOrderOnce) {
    Harness h(scene());
    ASSERT_TRUE(eventually([&] { return h.store->stats().datasets.back().filled_bytes == kFiles * kSize; }));
    const auto seen = h.origin.seen();
    ASSERT_EQ(seen.size(), kFiles);
    for (std::size_t i = 0; i < kFiles; ++i) {
        EXPECT_EQ(seen[i], (FakeOrigin::Seen{path_of(i), 0, kSize, Priority::fill}));
    }
    for (std::size_t i = 0; i < kFiles; ++i) h.check(fake::object(path_of(i), kSize), 0, kSize);
    EXPECT_EQ(h.origin.seen().size(), kFiles);
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.datasets.back().fill_offered_bytes, kFiles * kSize);
    EXPECT_EQ(stats.prefetched_bytes, 0U);
}

TEST(StoreFill, SkipsWhatIsPresent) {
    Scene made = scene();
    made.before_open = [](fake::FakeNvme& nvme) {
        for (std::size_t i = 0; i < kFiles; i += 2) nvme.put(*fake::object(path_of(i), kSize), 0, 1);
    };
    Harness h(made);
    ASSERT_TRUE(
        eventually([&] { return h.store->stats().datasets.back().fill_offered_bytes == kFiles * kSize; }));
    EXPECT_EQ(h.store->stats().datasets.back().filled_bytes, kFiles / 2 * kSize);
    for (std::size_t i = 0; i < kFiles; ++i) h.check(fake::object(path_of(i), kSize), 0, kSize);
    EXPECT_EQ(h.origin.seen().size(), kFiles / 2);
}

TEST(StoreFill, EndsWhenTheTiersAreFull) {
    Scene made = scene();
    made.before_open = [](fake::FakeNvme& nvme) { nvme.room = 40 * kSize; };
    Harness h(made);
    ASSERT_TRUE(eventually([&] { return h.origin.seen().size() == 60; }));
    ASSERT_TRUE(h.store->stop());  // the fill has ended by itself or ends now
    EXPECT_EQ(h.nvme.admitted_bytes, 40 * kSize);
    EXPECT_LE(h.origin.seen().size(), 61U);
    EXPECT_LE(h.store->stats().ram.used_bytes, made.ram) << "what NVMe has too gave way";
}

DatasetRule epoch_of(const std::string& match, const std::string& dataset_class = "epoch") {
    DatasetRule made;
    EXPECT_FALSE(made.set("match", match));
    EXPECT_FALSE(made.set("class", dataset_class));
    return made;
}

TEST(StoreFill, AClassThatIsSetLaterFillsAtOnce) {
    Scene made = scene(DatasetClass::automatic);
    made.datasets = {epoch_of("/a/**", "auto"), epoch_of("/b/**", "auto")};
    Harness h(made);
    EXPECT_TRUE(h.origin.seen().empty());
    std::uint64_t of_a = 0, of_b = 0;
    for (std::size_t i = 0; i < kFiles; ++i) {
        of_a += path_of(i).starts_with("a/") ? kSize : 0;
        of_b += path_of(i).starts_with("b/") ? kSize : 0;
    }
    ASSERT_GT(of_a * of_b, 0U);
    ASSERT_TRUE(h.store->set_class("/b/**", DatasetClass::epoch));
    const auto filled = [&](std::size_t number) { return h.store->stats().datasets[number].filled_bytes; };
    ASSERT_TRUE(eventually([&] { return filled(1) == of_b; }));
    EXPECT_EQ(filled(0), 0U);
    ASSERT_TRUE(h.store->set_class("/a/**", DatasetClass::pin));
    ASSERT_TRUE(eventually([&] { return filled(0) == of_a; }));
    EXPECT_EQ(filled(1), of_b) << "nothing twice";
    ASSERT_TRUE(eventually([&] { return h.store->stats().datasets[1].fill_offered_bytes == of_b; }));
    EXPECT_EQ(filled(2), 0U);
}

TEST(StoreFill, WhatIsForNvmeIsOnItsWayThereBeforeItsFlightIsForgotten) {
    Scene made = scene(DatasetClass::automatic);
    made.datasets = {epoch_of("/**", "auto")};
    Harness h(made);
    std::atomic<std::uint64_t> late{0};
    Script script;
    script.at("store.flight.landed", [&](std::size_t landed) {
        if (h.nvme.admitted().size() < landed) ++late;  // there is room for all
    });
    ASSERT_TRUE(h.store->set_class("/**", DatasetClass::epoch));
    ASSERT_TRUE(eventually([&] { return h.store->stats().datasets[0].filled_bytes == kFiles * kSize; }));
    EXPECT_EQ(late, 0U);
}

TEST(StoreFill, OnlyWhereAnEpochIsConfigured) {
    for (const auto dataset_class : {DatasetClass::automatic, DatasetClass::hot, DatasetClass::once}) {
        Harness h(scene(dataset_class));
        for (std::size_t i = 0; i < kFiles; i += 5) h.check(fake::object(path_of(i), kSize), 0, kSize);
        EXPECT_EQ(h.store->stats().datasets.back().fill_offered_bytes, 0U);
        EXPECT_EQ(h.store->stats().datasets.back().filled_bytes, 0U);
    }
}

TEST(StoreFill, ReadersAndFillShareFetches) {
    Scene made = scene();
    made.mode = FakeOrigin::Mode::threads;
    made.threads = 3;
    Harness h(made);
    for (std::size_t i = kFiles; i-- > 0;) h.check(fake::object(path_of(i), kSize), 0, kSize);
    ASSERT_TRUE(
        eventually([&] { return h.store->stats().datasets.back().fill_offered_bytes == kFiles * kSize; }));
    std::map<std::string, int> count;
    for (const auto& one : h.origin.seen()) ++count[one.path];
    EXPECT_EQ(count.size(), kFiles);
    for (const auto& [path, times] : count) EXPECT_EQ(times, 1) << path;
}

TEST(StoreFill, FailsForOneFileAndStopsInMidFlight) {
    Scene made = scene();
    made.mode = FakeOrigin::Mode::manual;
    made.connections = 16;
    Harness h(made);
    ASSERT_TRUE(eventually([&] { return h.origin.waiting() >= 32; }));
    EXPECT_LE(h.origin.waiting(), 32U) << "bounded, for the readers that come";
    const auto object = fake::object(path_of(0), kSize);
    const auto reader = h.start(object, 0, kSize);
    h.origin.complete(EIO);  // of the fill; the reader who joined asks for itself
    ASSERT_TRUE(eventually([&] {
        const auto seen = h.origin.seen();
        return std::find(seen.begin(), seen.end(),
                         FakeOrigin::Seen{path_of(0), 0, kSize, Priority::demand}) != seen.end();
    }));
    h.origin.set_mode(FakeOrigin::Mode::at_once);
    h.origin.complete_all();
    h.expect_bytes(*reader, *object, 0, kSize);
}

TEST(StoreFill, MeasuresHowLongReadersWait) {
    Scene made;
    made.nvme = true;
    made.mode = fake::FakeOrigin::Mode::threads;
    made.threads = 1;
    Harness h(made);
    for (const char* name : {"a", "b", "c"}) h.check(fake::object(name, 1000), 0, 1000);
    const auto pace = h.store->stats().fill_pace;
    EXPECT_EQ(pace.asked_files, 3U);
    EXPECT_GT(pace.quiet.count(), 0);
    EXPECT_EQ(pace.sent_files, 0U);
}

}  // namespace store_fill_test
}  // namespace tierfs
