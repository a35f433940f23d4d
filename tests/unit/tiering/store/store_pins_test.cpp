// What `tierfs pin` names: Store::pin, rounds, PinKeeper.
#include <gtest/gtest.h>

#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/store/pin_keeper.hpp"

namespace tierfs {
namespace store_pins_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;

constexpr std::uint64_t kSmall = 100'000;
constexpr DatasetNumber kFirst = 1, kSecond = 2;  // without rules

Scene scene(bool nvme = true) {
    Scene made;
    made.nvme = nvme;
    made.mode = fake::FakeOrigin::Mode::threads;
    made.threads = 2;
    return made;
}

Result<Store::Warmed> pin(Harness& h, const std::shared_ptr<const ObjectRef>& object) {
    std::atomic<bool> answered{false};
    Result<Store::Warmed> result;
    h.store->pin(
        object,
        [&](Result<Store::Warmed> answer) {
            result = std::move(answer);
            answered = true;
        },
        [] { return false; });
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!answered && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_TRUE(answered);
    return result;
}

void add(Harness& h, const std::string& path) {
    ASSERT_TRUE(h.pins.add(path, {1, 1}, h.store->pin_limit()));
}

TEST(StorePins, BringsWhatIsMissingForItsOwnDataset) {
    for (const std::uint64_t size : {kSmall, 9 * kMiB + 5}) {
        Harness h(scene());
        const auto object = fake::object("a/x", size);
        EXPECT_EQ(pin(h, object).error().code, ENOENT) << "it is not pinned";
        add(h, "a");
        const auto first = pin(h, object);
        ASSERT_TRUE(first) << first.error().message;
        EXPECT_EQ(first->brought, size);
        EXPECT_EQ(h.nvme.owner_of(object->content), kFirst);
        EXPECT_TRUE(pin(h, object)->unchanged);
        const std::size_t before = h.origin.seen().size();
        h.check(object, 0, static_cast<std::uint32_t>(size));
        EXPECT_EQ(h.origin.seen().size(), before);
        EXPECT_EQ(h.nvme.retentions[kFirst], Retention::pinned);
    }
}

TEST(StorePins, MovesWhatTheTiersHoldAlready) {
    for (const std::uint64_t size : {kSmall, 9 * kMiB + 5}) {
        for (const bool in_ram : {true, false}) {
            Scene made = scene();
            if (!in_ram) made.ram = 0;
            Harness h(made);
            const auto object = fake::object("a/x", size);
            if (in_ram) h.check(object, 0, static_cast<std::uint32_t>(size));
            if (!in_ram) h.nvme.put(*object, 0, block_count(size));
            const std::size_t before = h.origin.seen().size();
            add(h, "a/x");
            const auto pinned = pin(h, object);
            ASSERT_TRUE(pinned) << pinned.error().message;
            EXPECT_EQ(pinned->brought, 0U);
            EXPECT_EQ(h.origin.seen().size(), before) << "nothing is fetched again";
            EXPECT_EQ(h.nvme.owner_of(object->content), kFirst);
            h.check(object, 0, static_cast<std::uint32_t>(size));
        }
    }
}

TEST(StorePins, WithoutNvmeItStaysInRam) {
    Scene made = scene(false);
    made.ram = 8 * kMiB;
    Harness h(made);
    const auto mine = fake::object("mine", kSmall), read = fake::object("read", kSmall);
    h.check(read, 0, kSmall);
    add(h, "mine");
    add(h, "read");
    ASSERT_TRUE(pin(h, mine));
    ASSERT_TRUE(pin(h, read));
    for (int i = 0; i < 400; ++i) h.check(fake::object("s" + std::to_string(i), kSmall), 0, kSmall);
    EXPECT_EQ(h.store->describe_location(*mine), "ram");
    EXPECT_EQ(h.store->describe_location(*read), "ram");
    EXPECT_GE(h.store->stats().ram.pinned_bytes, 2 * kSmall);
    EXPECT_EQ(h.store->pin_limit(), 6 * kMiB);
}

TEST(StorePins, EvictIsRefusedUntilItIsUnpinned) {
    Harness h(scene());
    const auto object = fake::object("a/x", kSmall);
    add(h, "a");
    ASSERT_TRUE(pin(h, object));
    const auto refused = h.store->evict(*object);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);
    EXPECT_NE(refused.error().message.find("/a"), std::string::npos);
    ASSERT_TRUE(h.pins.remove("a"));
    EXPECT_TRUE(h.store->evict(*object));
}

TEST(StorePins, ARoundLetsGoOfWhatIsNotPinnedAnyMore) {
    Harness h(scene());
    const auto kept = fake::object("kept", kSmall), gone = fake::object("gone", 9 * kMiB);
    for (const auto& object : {kept, gone}) {
        add(h, object->path);
        ASSERT_TRUE(pin(h, object));
    }
    ASSERT_TRUE(h.pins.remove("gone"));
    h.store->begin_pin_round();
    EXPECT_EQ(h.nvme.retentions[kFirst], Retention::pinned)
        << "nothing goes until it is known what is pinned";
    EXPECT_EQ(h.nvme.retentions[kSecond], Retention::pinned);
    EXPECT_EQ(h.store->claim_pin(*kept), 0U);
    h.store->claim_pin(*gone);
    h.store->end_pin_round();
    EXPECT_EQ(h.nvme.owner_of(kept->content), kSecond);
    EXPECT_EQ(h.nvme.owner_of(gone->content), kUnknownDataset);
    EXPECT_EQ(h.nvme.retentions[kFirst], Retention::passes);
    EXPECT_FALSE(h.nvme.disowned_while_pinned);
    EXPECT_EQ(h.store->claim_pin(*fake::object("gone", 5)), 0U) << "no longer its business";
}

TEST(StorePins, WhatAnEarlierRunLeftStaysUntilItIsClaimed) {
    Scene made = scene();
    made.pins = {"a"};
    Harness h(made);
    const auto object = fake::object("a/x", kSmall), missing = fake::object("a/y", kSmall);
    h.nvme.put(*object, 0, block_count(kSmall));
    const auto& nobodys = h.nvme.retentions[kMostDatasets];
    EXPECT_EQ(nobodys, Retention::pinned);
    h.store->begin_pin_round();
    EXPECT_EQ(h.store->claim_pin(*object), 0U);
    EXPECT_EQ(h.store->claim_pin(*missing), kSmall);
    EXPECT_EQ(nobodys, Retention::pinned);
    h.store->end_pin_round();
    EXPECT_EQ(nobodys, Retention::goes);
    EXPECT_EQ(h.nvme.owner_of(object->content), kFirst);
}

DirectoryEntry file(const std::string& name, const std::string& version = "v1") {
    DirectoryEntry made;
    made.name = name;
    made.attributes.kind = ObjectKind::file;
    made.attributes.size = kSmall;
    made.attributes.version = version;
    return made;
}

void run(PinKeeper& keeper, PinKeeper::Clock::time_point now) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    do {
        keeper.tick(now);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } while (!keeper.idle() && std::chrono::steady_clock::now() < deadline);
    EXPECT_TRUE(keeper.idle());
}

TEST(PinKeeper, BringsWhatIsPinnedAfterAStartAndWhatChangesLater) {
    Scene made = scene();
    made.pins = {""};
    made.listings = {{"", {file("x"), file("y")}}};
    Harness h(made);
    PinKeeper keeper(h.origin, *h.store, h.pins);
    const auto start = PinKeeper::Clock::now();
    run(keeper, start);
    EXPECT_EQ(h.nvme.admitted_bytes, 2 * kSmall);
    EXPECT_EQ(h.nvme.retentions[kMostDatasets], Retention::goes);
    h.origin.listings = {{"", {file("x", "v2"), file("y")}}};
    run(keeper, start + std::chrono::minutes(1));
    EXPECT_EQ(h.nvme.admitted_bytes, 2 * kSmall) << "not yet";
    keeper.tick(start + PinKeeper::kEvery);
    run(keeper, start + PinKeeper::kEvery);
    EXPECT_EQ(h.nvme.admitted_bytes, 3 * kSmall) << "the new version";
    ASSERT_TRUE(h.pins.remove(""));
    keeper.look_again();
    run(keeper, start + PinKeeper::kEvery);
    EXPECT_EQ(h.nvme.retentions[kMostDatasets], Retention::goes);
    keeper.stop();
}

TEST(PinKeeper, TriesAgainWhatCouldNotBeBrought) {
    Scene made;
    made.nvme = true;
    made.mode = fake::FakeOrigin::Mode::manual;
    made.pins = {""};
    made.listings = {{"", {file("x")}}};
    Harness h(made);
    PinKeeper keeper(h.origin, *h.store, h.pins);
    const auto round = [&](PinKeeper::Clock::time_point now, int code) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
        unsigned asked = 0;
        do {
            keeper.tick(now);
            if (h.origin.complete(code)) ++asked;
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        } while (!keeper.idle() && std::chrono::steady_clock::now() < deadline);
        EXPECT_TRUE(keeper.idle());
        return asked;
    };
    const auto start = PinKeeper::Clock::now();
    EXPECT_GT(round(start, EIO), 0U);
    EXPECT_EQ(round(start + PinKeeper::kRetry / 2, EIO), 0U) << "not at once";
    EXPECT_GT(round(start + PinKeeper::kRetry, EIO), 0U);
    EXPECT_EQ(round(start + 2 * PinKeeper::kRetry, 0), 0U) << "more seldom each time";
    EXPECT_GT(round(start + 3 * PinKeeper::kRetry, 0), 0U);
    EXPECT_EQ(h.nvme.admitted_bytes, kSmall);
    keeper.stop();
}

}  // namespace store_pins_test
}  // namespace tierfs
