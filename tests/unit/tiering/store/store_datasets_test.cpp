// Several datasets on one mount: rules, and that one's readers do not spoil another's.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/tiering/store/harness.hpp"

namespace tierfs {
namespace store_datasets_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;
using Objects = std::vector<std::shared_ptr<const ObjectRef>>;

constexpr std::uint64_t kSize = 16 * 1024;

DatasetRule rule(const std::string& match, const std::string& dataset_class, const std::string& size = "") {
    DatasetRule made;
    EXPECT_FALSE(made.set("match", match));
    EXPECT_FALSE(made.set("class", dataset_class));
    if (!size.empty()) {
        EXPECT_FALSE(made.set("size", size));
    }
    return made;
}

Objects objects(const std::string& prefix, std::size_t count, std::uint64_t size = kSize) {
    Objects made;
    for (std::size_t i = 0; i < count; ++i) made.push_back(fake::object(prefix + std::to_string(i), size));
    return made;
}

std::size_t epoch(Harness& h, Objects objects, unsigned seed) {
    std::mt19937 random(seed);
    std::shuffle(objects.begin(), objects.end(), random);
    const std::size_t before = h.origin.seen().size();
    for (const auto& object : objects) h.check(object, 0, static_cast<std::uint32_t>(object->size));
    return h.origin.seen().size() - before;
}

TEST(StoreDatasets, EachIsRecognisedByItself) {
    Scene scene;
    scene.nvme = true;
    scene.datasets = {rule("/a/**", "auto"), rule("/b/**", "stream", "> 1M")};
    Harness h(scene);
    const Objects a = objects("a/", 200);
    for (unsigned seed = 0; seed < 3; ++seed) epoch(h, a, seed);
    const auto datasets = h.store->stats().datasets;
    ASSERT_EQ(datasets.size(), 3U);
    EXPECT_EQ(datasets[0].match, "/a/**");
    EXPECT_EQ(datasets[0].current, "epoch");
    EXPECT_EQ(datasets[0].read_bytes, 3 * 200 * kSize);
    EXPECT_EQ(datasets[0].origin_bytes, 200 * kSize);
    EXPECT_EQ(datasets[1].current, "stream");
    EXPECT_EQ(datasets[1].reason, "set by class");
    EXPECT_EQ(datasets[2].match, "/**");
    EXPECT_EQ(datasets[2].current, "undecided");
    EXPECT_EQ(datasets[2].read_bytes, 0U);
    EXPECT_EQ(h.nvme.retentions[0], Retention::stays);
    EXPECT_EQ(h.nvme.retentions[1], Retention::passes);
    EXPECT_EQ(h.nvme.retentions[2], Retention::waits);
}

TEST(StoreDatasets, ConditionsChooseAmongFilesOfAPath) {
    Scene scene;
    scene.nvme = true;
    scene.datasets = {rule("/b/**", "pin", "< 1M"), rule("/b/**", "none")};
    Harness h(scene);
    const auto small = fake::object("b/small", kSize), large = fake::object("b/large", 2 * kMiB);
    h.check(small, 0, kSize);
    h.check(large, 0, 2 * kMiB);
    EXPECT_EQ(h.nvme.owner_of(small->content), 0);
    EXPECT_EQ(h.nvme.owner_of(large->content), kUnknownDataset) << "none: not admitted";
}

TEST(StoreDatasets, WhatIsReadAgainMayFallUnderAnotherRule) {
    Scene scene;
    scene.nvme = true;
    DatasetRule again = rule("/**", "pin");
    ASSERT_FALSE(again.set("reads", ">= 2"));
    scene.datasets = {again};
    scene.dataset_class = DatasetClass::none;
    Harness h(scene);
    const auto object = fake::object("x", kSize), other = fake::object("y", kSize);
    h.check(object, 0, kSize);
    h.check(other, 0, kSize);
    EXPECT_EQ(h.nvme.owner_of(object->content), kUnknownDataset);
    h.check(object, 0, kSize);
    EXPECT_EQ(h.nvme.owner_of(object->content), 0) << "read twice, so it is pinned";
    EXPECT_EQ(h.nvme.owner_of(other->content), kUnknownDataset);
}

TEST(StoreDatasets, OfNoneNothingIsKept) {
    for (const std::uint64_t size : {kSize, 300 * std::uint64_t{1024}, 3 * kMiB}) {
        Scene scene;
        scene.nvme = true;
        scene.dataset_class = DatasetClass::none;
        Harness h(scene);
        const auto object = fake::object("x", size);
        for (int round = 0; round < 2; ++round) {
            for (std::uint64_t at = 0; at < size; at += 128 * 1024) h.check(object, at, 128 * 1024);
        }
        EXPECT_EQ(h.store->describe_location(*object), "origin") << size;
        EXPECT_EQ(h.nvme.admitted_bytes, 0U);
        EXPECT_EQ(h.store->stats().ram.used_bytes, 0U);
        EXPECT_GE(h.origin.seen_bytes(), 2 * size);
        EXPECT_LE(h.origin.seen_bytes(), 2 * size + 2 * kMiB)
            << "and nothing is fetched for each piece again";
    }
}

TEST(StoreDatasets, WithoutNvmeTheSecondEpochGetsItsShareOfRam) {
    Scene scene;
    scene.ram = 200 * (kSize + 640) * 32 / 31;
    scene.datasets = {rule("/a/**", "epoch"), rule("/b/**", "epoch")};
    Harness h(scene);
    const Objects a = objects("a/", 400), b = objects("b/", 400);
    epoch(h, a, 1);
    EXPECT_LE(epoch(h, a, 2), 205U) << "alone it has all of it";
    epoch(h, b, 1);
    epoch(h, b, 2);
    EXPECT_LE(epoch(h, b, 3), 310U);
    EXPECT_GE(epoch(h, b, 4), 295U) << "but not more than its half";
    epoch(h, a, 3);
    EXPECT_LE(epoch(h, a, 4), 310U);
    EXPECT_LE(epoch(h, b, 5), 310U) << "and nobody takes it back";
    const auto datasets = h.store->stats().datasets;
    EXPECT_TRUE(datasets[0].frozen && datasets[1].frozen);
}

TEST(StoreDatasets, AStreamTakesNothingOfAnEpochsAndOfWhatIsPinned) {
    Scene scene;
    scene.ram = 400 * (kSize + 640) * 32 / 31;
    scene.datasets = {rule("/a/**", "epoch"), rule("/p/**", "pin"), rule("/s/**", "auto")};
    Harness h(scene);
    const Objects a = objects("a/", 600), pinned = objects("p/", 50);
    epoch(h, pinned, 1);
    epoch(h, a, 1);
    const std::size_t before = epoch(h, a, 2);
    EXPECT_EQ(epoch(h, pinned, 2), 0U);
    const auto stream = fake::object("s/large", 48 * kMiB);
    for (std::uint64_t at = 0; at < stream->size; at += 128 * 1024) h.check(stream, at, 128 * 1024);
    EXPECT_EQ(epoch(h, pinned, 3), 0U);
    EXPECT_LE(epoch(h, a, 3), before + 4);
}

TEST(StoreDatasets, PinsThatDoNotFitSaySo) {
    Scene scene;
    scene.ram = 100 * (kSize + 640) * 32 / 31;
    scene.dataset_class = DatasetClass::pin;
    Harness h(scene);
    const Objects all = objects("p/", 200);
    epoch(h, all, 1);
    EXPECT_LE(epoch(h, all, 2), 105U) << "what was pinned first stays";
    EXPECT_NE(h.store->stats().datasets.back().reason.find("no room"), std::string::npos);
}

}  // namespace store_datasets_test
}  // namespace tierfs
