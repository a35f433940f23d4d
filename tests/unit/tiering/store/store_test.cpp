#include "tiering/store/store.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/fetch/recent_failures.hpp"

namespace tierfs {
namespace store_test {

using fake::FakeOrigin;
using fake::Harness;
using fake::kMiB;
using fake::Scene;
using Mode = fake::FakeOrigin::Mode;

Scene manual() {
    Scene scene;
    scene.mode = Mode::manual;
    return scene;
}

TEST(Store, ReadsAMissFromTheOriginAndThenFromRam) {
    Harness h;
    const auto object = fake::object("a", 100000);
    h.check(object, 0, 100000);
    h.check(object, 0, 100000);
    h.check(object, 12345, 60000);
    EXPECT_EQ(h.origin.seen().size(), 1U);
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.origin_bytes, 100000U);
    EXPECT_EQ(stats.ram_bytes, 160000U);
    EXPECT_EQ(stats.read_bytes, 260000U);
    EXPECT_EQ(stats.fetched_bytes, 100000U);
    EXPECT_EQ(stats.read_requests, 3U);
}

TEST(Store, CutsReadsToTheObjectAndAnswersEmptyOnes) {
    Harness h;
    const auto object = fake::object("a", 100);
    h.check(object, 90, 1000);
    h.check(object, 100, 10);
    h.check(object, ~std::uint64_t{0}, 10);
    h.check(object, 5, 0);
    h.check(fake::object("empty", 0), 0, 4096);
    EXPECT_EQ(h.store->stats().read_errors, 0U);
    EXPECT_EQ(h.origin.seen().size(), 1U);
}

TEST(Store, FetchesASmallObjectWholeAndItsRestCountsAsOriginOnce) {
    Harness h;
    const auto object = fake::object("a", kMiB);
    h.check(object, 0, 128 * 1024);
    ASSERT_EQ(h.origin.seen().size(), 1U);
    EXPECT_EQ(h.origin.seen()[0].size, kMiB);
    h.check(object, 128 * 1024, 896 * 1024);
    StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.origin_bytes, kMiB) << "what no application had used yet came from the origin";
    EXPECT_EQ(stats.ram_bytes, 0U);
    h.check(object, 0, kMiB);
    EXPECT_EQ(h.store->stats().ram_bytes, kMiB);
    EXPECT_EQ(h.origin.seen().size(), 1U);
}

TEST(Store, WithoutARamTierNothingUsedIsKeptButWhatIsAheadIs) {
    Scene scene;
    scene.ram = 0;
    Harness h(scene);
    const auto object = fake::object("a", kMiB);
    for (std::uint64_t at = 0; at < kMiB; at += 128 * 1024) h.check(object, at, 128 * 1024);
    EXPECT_EQ(h.origin.seen().size(), 1U) << "the rest of a fetched object is kept for its reader";
    EXPECT_EQ(h.store->stats().data_memory_bytes, 0U);
    h.check(object, 0, kMiB);
    EXPECT_EQ(h.origin.seen().size(), 2U);
    EXPECT_EQ(h.store->stats().ram_bytes, 0U);
    EXPECT_EQ(h.store->stats().data_memory_bytes, 0U);
}

TEST(Store, ReadersOfTheSameRangeShareOneFetch) {
    Harness h(manual());
    const auto object = fake::object("a", 300000);
    std::vector<fake::PendingPtr> readers;
    for (int i = 0; i < 10; ++i) readers.push_back(h.start(object, 0, 300000));
    EXPECT_EQ(h.origin.waiting(), 1U);
    for (const auto& reader : readers) EXPECT_FALSE(reader->done());
    h.origin.complete();
    for (const auto& reader : readers) Harness::expect_bytes(*reader, *object, 0, 300000);
    EXPECT_EQ(h.origin.seen().size(), 1U);
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.origin_bytes, 300000U);
    EXPECT_EQ(stats.ram_bytes, 9 * 300000U);
}

TEST(Store, OverlappingRandomReadsFetchEachBlockOnce) {
    Harness h(manual());
    const auto object = fake::object("big", 100 * kMiB);
    const std::uint64_t at = 50 * kMiB;
    const auto first = h.start(object, at, 2 * kBlockSize);
    const auto second = h.start(object, at + kBlockSize + 100, 2 * kBlockSize);
    h.origin.complete(0, 1);
    EXPECT_FALSE(second->done());
    h.origin.complete_all();
    Harness::expect_bytes(*first, *object, at, 2 * kBlockSize);
    Harness::expect_bytes(*second, *object, at + kBlockSize + 100, 2 * kBlockSize);
    std::set<std::uint64_t> blocks;
    for (const auto& seen : h.origin.seen()) {
        for (std::uint64_t b = seen.offset; b < seen.offset + seen.size; b += kBlockSize) {
            EXPECT_TRUE(blocks.insert(b).second) << "fetched twice: " << b;
        }
    }
}

TEST(Store, ARangeOverUnitsAndTheObjectsEndIsAssembledInOrder) {
    Harness h(manual());
    const auto object = fake::object("big", 12 * kMiB + 777);
    const std::uint64_t at = 11 * kMiB - 100;  // units are of 4 MiB
    const auto reader = h.start(object, at, 2 * kMiB);
    EXPECT_GE(h.origin.waiting(), 2U);
    while (h.origin.waiting() > 0) h.origin.complete(0, h.origin.waiting() - 1);
    Harness::expect_bytes(*reader, *object, at, 2 * kMiB);
    h.check(object, at, 2 * kMiB);
}

TEST(Store, AnErrorReachesEveryReaderAndPoisonsNothing) {
    Harness h(manual());
    const auto object = fake::object("a", 5000);
    const auto first = h.start(object, 0, 5000);
    const auto second = h.start(object, 100, 100);
    h.origin.complete(ESTALE);
    for (const auto& reader : {first, second}) {
        ASSERT_FALSE(reader->wait().has_value());
        EXPECT_EQ(reader->wait().error().code, ESTALE);
        EXPECT_EQ(reader->calls(), 1);
    }
    EXPECT_EQ(h.store->stats().read_errors, 2U);
    const auto third = h.start(object, 0, 5000);
    h.origin.complete();
    Harness::expect_bytes(*third, *object, 0, 5000);
}

/// The kernel sends a read that failed as readahead again.
TEST(Store, WhatFailedAfterALongWaitFailsAtOnceForAMoment) {
    Harness h(manual());
    const auto object = fake::object("a", 5000), other = fake::object("b", 5000);
    const auto first = h.start(object, 0, 5000);
    std::this_thread::sleep_for(RecentFailures::kLong);
    h.origin.complete(ETIMEDOUT);
    EXPECT_EQ(first->wait().error().code, ETIMEDOUT);
    const auto second = h.start(object, 0, 4096);
    EXPECT_EQ(h.origin.waiting(), 0U);
    EXPECT_EQ(second->wait().error().code, ETIMEDOUT);
    const auto neighbour = h.start(other, 0, 5000);
    h.origin.complete();
    Harness::expect_bytes(*neighbour, *other, 0, 5000);
    std::this_thread::sleep_for(RecentFailures::kMoment);
    const auto third = h.start(object, 0, 5000);
    h.origin.complete();
    Harness::expect_bytes(*third, *object, 0, 5000);
}

TEST(Store, ReadersOfReadaheadThatFailsLateWaitOnce) {
    Harness h(manual());
    const auto object = fake::object("big", 64 * kMiB);
    const auto first = h.start(object, 0, kMiB);
    h.origin.complete();
    Harness::expect_bytes(*first, *object, 0, kMiB);
    const auto second = h.start(object, kMiB, kMiB);
    h.origin.complete();
    Harness::expect_bytes(*second, *object, kMiB, kMiB);
    ASSERT_GE(h.origin.waiting(), 1U);
    const auto joined = h.start(object, h.origin.seen().back().offset, 4096);
    std::this_thread::sleep_for(RecentFailures::kLong);
    h.origin.complete_all(ETIMEDOUT);
    EXPECT_EQ(joined->wait().error().code, ETIMEDOUT);
    EXPECT_EQ(h.origin.waiting(), 0U);
}

TEST(Store, OneFailedPieceFailsTheReadOnceAfterAllPiecesAreBack) {
    Harness h(manual());
    const auto object = fake::object("big", 100 * kMiB);
    const auto reader = h.start(object, 52 * kMiB - kBlockSize, 2 * kBlockSize);
    ASSERT_EQ(h.origin.waiting(), 2U);
    h.origin.complete(EIO);
    h.origin.complete();
    EXPECT_EQ(reader->wait().error().code, EIO);
    EXPECT_EQ(reader->calls(), 1);
}

TEST(Store, RandomReadsFetchExactlyTheBlocksTouched) {
    Harness h;
    const auto object = fake::object("big", 256 * kMiB);
    std::uint64_t wanted = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const std::uint64_t block = 1 + 2 * ((i * i * 1531) % 2039);  // a prime: no neighbours, no stride
        h.check(object, block * kBlockSize, kBlockSize);
        wanted += kBlockSize;
    }
    EXPECT_EQ(h.store->stats().fetched_bytes, wanted);
    EXPECT_EQ(h.origin.seen_bytes(), wanted);
}

TEST(Store, AStreamIsFetchedOnceAndInOrder) {
    Harness h(manual());
    const auto object = fake::object("big", 40 * kMiB + 12345);
    for (std::uint64_t at = 0; at < object->size; at += 256 * 1024) {
        const auto reader = h.start(object, at, 256 * 1024);
        while (!reader->done() && h.origin.complete()) {
        }
        Harness::expect_bytes(*reader, *object, at, 256 * 1024);
    }
    h.origin.complete_all();
    std::uint64_t expected = 0;
    for (const auto& seen : h.origin.seen()) {
        EXPECT_EQ(seen.offset, expected);
        EXPECT_LE(seen.size, seen.offset < 2 * kMiB ? kMiB : 4 * kMiB);
        expected = seen.offset + seen.size;
    }
    EXPECT_EQ(expected, object->size);
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.origin_bytes, object->size);
    EXPECT_EQ(stats.ram_bytes, 0U);
    EXPECT_EQ(stats.fetched_bytes, object->size);
    EXPECT_GT(stats.prefetched_bytes, 30 * kMiB);
}

TEST(Store, AWindowOfNothingTurnsReadaheadOff) {
    Scene scene;
    scene.window = 0;
    Harness h(scene);
    const auto object = fake::object("big", 40 * kMiB);
    for (std::uint64_t at = 0; at < 4 * kMiB; at += 2 * kBlockSize) h.check(object, at, 2 * kBlockSize);
    EXPECT_EQ(h.store->stats().prefetched_bytes, 0U);
    EXPECT_EQ(h.origin.seen_bytes(), 4 * kMiB);
    for (const auto& seen : h.origin.seen()) EXPECT_EQ(seen.size, 2 * kBlockSize) << "what was read, no more";
}

TEST(Store, AStreamKeepsManyPartsUnderWay) {
    Harness h(manual());
    const auto object = fake::object("big", 200 * kMiB);
    std::size_t most = 0;
    for (std::uint64_t at = 0; at < 8 * kMiB; at += kMiB) {
        const auto reader = h.start(object, at, kMiB);
        most = std::max(most, h.origin.waiting());
        while (!reader->done() && h.origin.complete()) {
        }
    }
    EXPECT_GE(most, 8U);
    EXPECT_LE(most, 17U) << "a quarter of the arena is one stream's limit";
}

TEST(Store, AStreamWithTheOriginAnsweringAtOnceDoesNotRecurse) {
    Scene scene;
    scene.arena = scene.ram = 256 * kMiB;
    Harness h(scene);
    const auto object = fake::object("big", 80 * kMiB);
    for (std::uint64_t at = 0; at < object->size; at += kMiB) h.check(object, at, kMiB);
    EXPECT_EQ(h.origin.seen_bytes(), object->size);
}

TEST(Store, AFailedPrefetchIsSilentAndTheReadFetchesAgain) {
    Harness h(manual());
    const auto object = fake::object("big", 64 * kMiB);
    const auto first = h.start(object, 0, kMiB);
    h.origin.complete();
    Harness::expect_bytes(*first, *object, 0, kMiB);
    const auto second = h.start(object, kMiB, kMiB);
    ASSERT_GE(h.origin.waiting(), 2U);
    h.origin.complete();  // the second read's own
    Harness::expect_bytes(*second, *object, kMiB, kMiB);
    h.origin.complete_all(EIO);
    EXPECT_EQ(h.store->stats().read_errors, 0U);
    h.origin.set_mode(Mode::at_once);
    h.check(object, 2 * kMiB, kMiB);
}

TEST(Store, AReaderWhoJoinedAFailedPrefetchGetsADemandRequest) {
    Harness h(manual());
    const auto object = fake::object("big", 64 * kMiB);
    const auto first = h.start(object, 0, kMiB);
    h.origin.complete();
    Harness::expect_bytes(*first, *object, 0, kMiB);
    const auto second = h.start(object, kMiB, kMiB);
    h.origin.complete();
    ASSERT_GE(h.origin.waiting(), 1U);
    const std::uint64_t next = h.origin.seen().back().offset;
    const auto joined = h.start(object, next, 4096);
    while (!joined->done() && h.origin.waiting() > 0) {
        h.origin.complete(h.origin.seen().back().priority == Priority::prefetch ? ETIMEDOUT : 0);
    }
    Harness::expect_bytes(*joined, *object, next, 4096);
    EXPECT_EQ(h.origin.seen().back().priority, Priority::demand);
}

TEST(Store, WhatArrivesIsAdmittedToNvmeAndReadBackFromThere) {
    Scene scene;
    scene.ram = 0;
    scene.nvme = true;
    Harness h(scene);
    const auto small = fake::object("s", 200000);
    const auto big = fake::object("big", 64 * kMiB);
    h.check(small, 1000, 150000);
    h.check(big, 33 * kMiB + 5, 3 * kBlockSize);
    ASSERT_EQ(h.nvme.admitted().size(), 2U);
    EXPECT_EQ(h.nvme.admitted()[0], (fake::FakeNvme::Admitted{0, 200000, 200000}));
    EXPECT_EQ(h.nvme.admitted()[1], (fake::FakeNvme::Admitted{33 * kMiB, 4 * kBlockSize, big->size}));
    const std::size_t requests = h.origin.seen().size();
    h.check(big, 33 * kMiB + 5, 3 * kBlockSize);
    EXPECT_EQ(h.origin.seen().size(), requests);
    EXPECT_EQ(h.store->stats().nvme_bytes, 3 * kBlockSize);
    EXPECT_EQ(h.store->describe_location(*big), "nvme+origin");
}

TEST(Store, ASmallObjectOnNvmeIsReadByTheBlocksOfTheRange) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    const auto small = fake::object("s", 15 * kBlockSize + 10);
    h.nvme.put(*small, 0, 16);
    h.check(small, 4 * kBlockSize + 10, 20);
    EXPECT_EQ(h.nvme.read_bytes(), kBlockSize);
    h.check(small, 4 * kBlockSize, kBlockSize);
    EXPECT_EQ(h.nvme.reads(), 1U) << "promoted to RAM";
    h.check(small, 0, 16 * kBlockSize);
    EXPECT_TRUE(h.origin.seen().empty());
    EXPECT_TRUE(h.nvme.admitted().empty());
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.origin_bytes, 0U);
    EXPECT_EQ(stats.nvme_bytes + stats.ram_bytes, stats.read_bytes);
}

TEST(Store, WhatTheNvmeTierLostComesFromTheOrigin) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    const auto small = fake::object("s", 200000);
    const auto big = fake::object("big", 64 * kMiB);
    h.nvme.put(*small, 0, 4);
    h.nvme.put(*big, 100, 10);
    h.nvme.lie = true;
    h.check(small, 0, 200000);
    h.check(big, 100 * kBlockSize, 10 * kBlockSize);
    EXPECT_EQ(h.store->stats().nvme_bytes, 0U);
}

TEST(Store, WhatRamLosesWhileAReadIsPlannedComesFromNvmeAndNotFromTheOrigin) {
    for (const bool archived : {false, true}) {
        Scene scene;
        scene.nvme = true;
        scene.ram = 4 * kBlockSize;
        Harness h(scene);
        auto made = std::make_shared<ObjectRef>(*fake::object("small", 2 * kBlockSize));
        made->archived = archived;
        const std::shared_ptr<const ObjectRef> small = made;
        h.nvme.put(*small, 0, 2);
        h.check(small, 0, kBlockSize);
        h.nvme.on_contains = [&] {  // asked about the second block, the first being in RAM
            for (int i = 0; i < 40; ++i) {
                h.check(fake::object("other" + std::to_string(i), kBlockSize), 0, kBlockSize);
            }
        };
        h.check(small, 0, 2 * kBlockSize);
        EXPECT_EQ(h.nvme.reads(), 2U) << "the second time, both blocks in one piece";
        for (const auto& seen : h.origin.seen()) EXPECT_NE(seen.path, "small");
    }
}

TEST(Store, AReadMayBePartRamPartNvmePartOrigin) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    h.check(big, 100 * kBlockSize, kBlockSize);
    h.nvme.put(*big, 102, 1);
    h.check(big, 99 * kBlockSize + 7, 5 * kBlockSize - 9);
    EXPECT_EQ(h.store->stats().nvme_bytes, kBlockSize);
    const auto small = fake::object("s", 3 * kBlockSize);
    EXPECT_EQ(h.store->describe_location(*small), "origin");
    h.check(small, 0, 1);
    EXPECT_EQ(h.store->describe_location(*small), "ram");
}

TEST(Store, AnArchivedObjectIsReadFromATierOrRefusedAtOnce) {
    Scene scene;
    scene.nvme = true;
    Harness h(scene);
    auto made = std::make_shared<ObjectRef>(*fake::object("cold", 64 * kMiB));
    made->archived = true;
    const std::shared_ptr<const ObjectRef> cold = made;
    const auto refused = h.start(cold, 0, kMiB);
    ASSERT_TRUE(refused->done());
    EXPECT_EQ(refused->wait().error().code, EACCES);
    h.nvme.put(*cold, 16, 16);
    h.check(cold, kMiB, kMiB);
    const auto half = h.start(cold, kMiB, kMiB + 1);
    EXPECT_EQ(half->wait().error().code, EACCES);
    EXPECT_TRUE(h.origin.seen().empty());
}

TEST(Store, StopCancelsWhoWaitsAndRefusesNewReads) {
    Scene scene = manual();
    scene.arena = scene.ram = kMiB;
    Harness h(scene);
    std::vector<fake::PendingPtr> readers;
    for (int i = 0; i < 64; ++i) {
        readers.push_back(h.start(fake::object("o" + std::to_string(i), 60000), 0, 60000));
    }
    EXPECT_LE(h.origin.waiting(), 17U);  // of 60 KiB each
    h.origin.stop();
    h.store->stop();
    for (const auto& reader : readers) {
        ASSERT_TRUE(reader->done());
        EXPECT_EQ(reader->wait().error().code, ECANCELED);
        EXPECT_EQ(reader->calls(), 1);
    }
    const auto late = h.start(fake::object("late", 10), 0, 10);
    ASSERT_TRUE(late->done());
    EXPECT_EQ(late->wait().error().code, ECANCELED);
    h.store->stop();
}

TEST(Store, RefusesToOpenWithoutDataMemory) {
    FakeOrigin origin;
    EXPECT_EQ(Store::open(Settings{}, MemoryPlan{}, origin, nullptr).error().code, EINVAL);
}

}  // namespace store_test
}  // namespace tierfs
