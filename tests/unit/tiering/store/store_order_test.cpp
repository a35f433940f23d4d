// Orders of threads in the store that chance hardly ever brings about.
#include "tests/unit/script.hpp"
#include "tests/unit/tiering/store/harness.hpp"

#ifdef TIERFS_TEST_POINTS

namespace tierfs::fake {
namespace store_order_test {

Scene manual() {
    Scene scene;
    scene.mode = FakeOrigin::Mode::manual;
    return scene;
}

TEST(StoreOrder, AReaderThatMissedJustBeforeTheFlightLandedFindsItInRam) {
    Harness harness(manual());
    const auto file = object("f", 50'000);
    const PendingPtr first = harness.start(file, 0, 50'000);
    Script script;
    script.order("store.flight.landed", "store.read.divided");
    PendingPtr second;
    std::thread reader([&] { second = harness.start(file, 100, 5000); });
    EXPECT_TRUE(script.await("store.read.divided"));  // it has looked into RAM, in vain
    EXPECT_TRUE(harness.origin.complete());
    reader.join();
    Harness::expect_bytes(*first, *file, 0, 50'000);
    Harness::expect_bytes(*second, *file, 100, 5000);
    EXPECT_EQ(harness.origin.seen().size(), 1U);
}

TEST(StoreOrder, AReaderMayJoinAFlightWhoseBytesAreThere) {
    Harness harness(manual());
    const auto file = object("f", 50'000);
    const PendingPtr first = harness.start(file, 0, 50'000);
    PendingPtr second;
    Script script;
    script.once("store.flight.completing", [&] { second = harness.start(file, 0, 20'000); });
    EXPECT_TRUE(harness.origin.complete());
    ASSERT_NE(second, nullptr);
    Harness::expect_bytes(*first, *file, 0, 50'000);
    Harness::expect_bytes(*second, *file, 0, 20'000);
    EXPECT_EQ(harness.origin.seen().size(), 1U);
    EXPECT_EQ(second->calls(), 1);
}

TEST(StoreOrder, AReaderMayJoinAFlightThatIsNotSentYet) {
    Harness harness(manual());
    const auto file = object("f", 50'000);
    PendingPtr second;
    Script script;
    script.once("store.read.committed", [&] { second = harness.start(file, 0, 20'000); });
    const PendingPtr first = harness.start(file, 0, 50'000);
    EXPECT_EQ(harness.origin.waiting(), 1U);
    EXPECT_TRUE(harness.origin.complete(EIO));
    EXPECT_EQ(first->wait().error().code, EIO);
    EXPECT_EQ(second->wait().error().code, EIO);
}

TEST(StoreOrder, WhatLeavesRamBetweenLookAndReadIsFetchedAgain) {
    Scene scene;
    scene.ram = 2 * kMiB;
    scene.window = 0;
    scene.arena = 16 * kMiB;
    scene.nvme = true;
    Harness harness(scene);
    const auto large = object("large", 3 * kMiB);
    harness.nvme.put(*large, 0, 48);
    harness.check(large, 0, 65536);
    const std::size_t asked = harness.origin.seen().size();
    Script script;
    script.once("store.read.divided", [&] {
        for (int i = 0; i < 40; ++i) harness.check(object("o" + std::to_string(i), kMiB), 0, kMiB);
    });
    harness.check(large, 0, 2 * kMiB);
    for (std::size_t i = asked; i < harness.origin.seen().size(); ++i) {
        EXPECT_NE(harness.origin.seen()[i].path, "large") << "the NVMe tier had it";
    }
}

TEST(StoreOrder, WhatLeavesTheNvmeTierBetweenLookAndReadIsFetched) {
    Scene scene = manual();
    scene.nvme = true;
    Harness harness(scene);
    const auto file = object("f", 50'000);
    harness.nvme.put(*file, 0, 1);
    PendingPtr second;
    Script script;
    script.once("store.read.nvme_planned", [&] {
        harness.nvme.lie = true;                 // evicted: this reader and the next will miss
        second = harness.start(file, 10, 1000);  // plans the same, and fetches
    });
    const PendingPtr first = harness.start(file, 0, 50'000);
    const PendingPtr third = harness.start(file, 0, 10);  // joins one of them or reads in vain too
    harness.nvme.lie = false;
    harness.origin.complete_all();
    Harness::expect_bytes(*first, *file, 0, 50'000);
    Harness::expect_bytes(*second, *file, 10, 1000);
    Harness::expect_bytes(*third, *file, 0, 10);
    EXPECT_EQ(first->calls() + second->calls() + third->calls(), 3);
    harness.check(file, 0, 50'000);
}

TEST(StoreOrder, ADemandThatOvertakesReadaheadIsFetchedOnce) {
    Harness harness(manual());
    const auto large = object("large", 8 * kMiB);
    PendingPtr demand;
    std::uint64_t at = 0;
    Script script;
    // The first part of the window, memory taken and nobody told: now a reader wants the very same.
    script.once("store.prefetch.allocated", [&] {
        at = kMiB;
        demand = harness.start(large, at, 65536);
    });
    const PendingPtr first = harness.start(large, 0, 65536);
    ASSERT_NE(demand, nullptr);
    harness.origin.complete_all();
    Harness::expect_bytes(*first, *large, 0, 65536);
    Harness::expect_bytes(*demand, *large, at, 65536);
    std::map<std::uint64_t, int> fetched;
    for (const auto& seen : harness.origin.seen()) {
        for (std::uint64_t block = seen.offset / kBlockSize; block * kBlockSize < seen.offset + seen.size;
             ++block) {
            EXPECT_EQ(++fetched[block], 1) << "block " << block;
        }
    }
}

TEST(StoreOrder, AFailureEndsAStreamWhileItsReadaheadIsBeingSent) {
    Harness harness(manual());
    const auto large = object("large", 32 * kMiB);
    PendingPtr first;
    Script script;
    script.once("store.prefetch.added", [&] { EXPECT_TRUE(harness.origin.complete(EIO)); });
    first = harness.start(large, 0, 65536);
    EXPECT_EQ(first->wait().error().code, EIO);
    const std::size_t sent = harness.origin.seen().size();
    EXPECT_LE(sent, 3U) << "the stream is forgotten: what was being sent goes, and no more";
    harness.origin.complete_all();
    EXPECT_LE(harness.origin.seen().size(), sent);
    const PendingPtr again = harness.start(large, 0, 65536);
    harness.origin.complete_all();
    Harness::expect_bytes(*again, *large, 0, 65536);
}

TEST(StoreOrder, AStopWaitsForTheCompletionThatCameInBetween) {
    Scene scene = manual();
    scene.nvme = true;
    Harness harness(scene);
    const auto file = object("f", 50'000);
    const PendingPtr first = harness.start(file, 0, 50'000);
    PendingPtr late;
    Script script;
    script.once("store.stop.closed", [&] {
        late = harness.start(file, 0, 10);
        EXPECT_TRUE(harness.origin.complete());
    });
    harness.store->stop();
    Harness::expect_bytes(*first, *file, 0, 50'000);
    EXPECT_EQ(late->wait().error().code, ECANCELED);
    EXPECT_TRUE(harness.nvme.admitted().empty()) << "the tier may be closing by now";
}

TEST(StoreOrder, AStopWaitsForACompletionOnAnotherThread) {
    Harness harness(manual());
    const auto file = object("f", 50'000);
    const PendingPtr first = harness.start(file, 0, 50'000);
    std::atomic<bool> stopped{false};
    Script script;
    script.order("test.checked", "store.flight.completing");
    std::thread completes([&] { harness.origin.complete(); });
    EXPECT_TRUE(script.await("store.flight.completing"));
    std::thread stops([&] {
        harness.store->stop();
        stopped = true;
    });
    EXPECT_TRUE(script.await("store.stop.closed"));
    EXPECT_FALSE(stopped) << "a completion is under way";
    TIERFS_SYNC_POINT("test.checked");
    stops.join();
    EXPECT_TRUE(first->done());
    completes.join();
    Harness::expect_bytes(*first, *file, 0, 50'000);
}

}  // namespace store_order_test

#endif

}  // namespace store_order_test
