// warm, evict, set_class.
#include <gtest/gtest.h>

#include "tests/unit/tiering/store/harness.hpp"

namespace tierfs {
namespace store_verbs_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;

/// Warms and waits for the answer.
Result<Store::Warmed> warm(Harness& h, const std::shared_ptr<const ObjectRef>& object) {
    std::atomic<bool> answered{false};
    Result<Store::Warmed> result;
    h.store->warm(
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

TEST(StoreVerbs, WarmBringsWhatIsMissingAtTheRankOfTheFill) {
    for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{100'000}, 9 * kMiB + 5}) {
        Scene scene;
        scene.nvme = true;
        scene.mode = fake::FakeOrigin::Mode::threads;
        scene.threads = 4;
        Harness h(scene);
        const auto object = fake::object("x", size);
        const auto first = warm(h, object);
        ASSERT_TRUE(first) << first.error().message;
        EXPECT_EQ(first->brought, size);
        for (const auto& request : h.origin.seen()) EXPECT_EQ(request.priority, Priority::fill);
        const auto again = warm(h, object);
        ASSERT_TRUE(again);
        EXPECT_TRUE(again->unchanged);
        const std::size_t before = h.origin.seen().size();
        h.check(object, 0, static_cast<std::uint32_t>(size));
        EXPECT_EQ(h.origin.seen().size(), before) << "all of it is here";
    }
}

TEST(StoreVerbs, WarmSaysWhatStandsInTheWay) {
    Scene scene;
    scene.nvme = true;
    scene.mode = fake::FakeOrigin::Mode::manual;
    DatasetRule none;
    ASSERT_FALSE(none.set("match", "/none/**"));
    ASSERT_FALSE(none.set("class", "none"));
    scene.datasets = {none};
    Harness h(scene);
    EXPECT_EQ(warm(h, fake::object("none/x", 100)).error().code, EINVAL);
    auto archived = std::make_shared<ObjectRef>(*fake::object("cold", 100));
    archived->archived = true;
    EXPECT_EQ(warm(h, archived).error().code, EACCES);
    Result<Store::Warmed> result;
    h.store->warm(
        fake::object("gone", 100), [&](Result<Store::Warmed> answer) { result = std::move(answer); },
        [] { return false; });
    h.origin.complete(ENOENT);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ENOENT);
    EXPECT_TRUE(warm(h, fake::object("empty", 0))->unchanged);
}

TEST(StoreVerbs, WarmEndsWhenTheTiersAreFull) {
    Scene scene;
    scene.nvme = true;
    scene.ram = 0;
    scene.dataset_class = DatasetClass::stream;  // configured: not written to NVMe
    Harness h(scene);
    const auto result = warm(h, fake::object("x", 100'000));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, ENOSPC);
}

TEST(StoreVerbs, EvictGivesUpWhatIsHere) {
    Scene scene;
    Harness h(scene);
    for (const std::uint64_t size : {std::uint64_t{100'000}, 9 * kMiB}) {
        const auto object = fake::object("x" + std::to_string(size), size);
        h.check(object, 0, static_cast<std::uint32_t>(size));
        EXPECT_EQ(h.store->describe_location(*object), "ram");
        EXPECT_EQ(h.store->evict(*object).value(), size);
        EXPECT_EQ(h.store->describe_location(*object), "origin");
        EXPECT_EQ(h.store->evict(*object).value(), 0U);
    }
}

TEST(StoreVerbs, WhatIsPinnedIsNotEvicted) {
    Scene scene;
    scene.dataset_class = DatasetClass::pin;
    Harness h(scene);
    const auto object = fake::object("x", 100);
    h.check(object, 0, 100);
    const auto refused = h.store->evict(*object);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, EBUSY);
}

TEST(StoreVerbs, TheClassOfADatasetCanBeSetAndGivenBack) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    EXPECT_EQ(h.nvme.retentions[0], Retention::waits);
    ASSERT_TRUE(h.store->set_class("/**", DatasetClass::hot));
    EXPECT_EQ(h.nvme.retentions[0], Retention::goes);
    const auto status = h.store->stats().datasets[0];
    EXPECT_EQ(status.configured, "hot");
    EXPECT_EQ(status.current, "hot");
    EXPECT_EQ(status.reason, "set while mounted");
    ASSERT_TRUE(h.store->set_class("/**", DatasetClass::automatic));
    EXPECT_EQ(h.store->stats().datasets[0].current, "undecided");
    const auto refused = h.store->set_class("/x/**", DatasetClass::hot);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ENOENT);
    EXPECT_NE(refused.error().message.find("there are: /**"), std::string::npos);
}

}  // namespace store_verbs_test
}  // namespace tierfs
