// The store when data memory is short.
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tests/unit/tiering/store/harness.hpp"
#include "tiering/store/store_impl.hpp"

namespace tierfs {
namespace memory_test {

using fake::Harness;
using fake::kMiB;
using fake::Scene;
using Mode = fake::FakeOrigin::Mode;

/// Places without a constant stride.
std::uint64_t scattered(std::uint64_t i) {
    return (i * i * 13 + 5) * kBlockSize;
}

TEST(StoreMemory, WaitingReadsStartInOrderWhenMemoryComesFree) {
    Scene scene;
    scene.mode = Mode::manual;
    scene.arena = 256 * 1024;
    scene.ram = 0;
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    std::vector<fake::PendingPtr> readers;
    for (std::uint64_t i = 0; i < 8; ++i) readers.push_back(h.start(big, scattered(i), 100));
    ASSERT_EQ(h.origin.waiting(), 4U);
    for (std::uint64_t i = 0; i < 8; ++i) {
        while (!h.origin.complete()) std::this_thread::yield();
        Harness::expect_bytes(*readers[i], *big, scattered(i), 100);
    }
    const auto seen = h.origin.seen();
    ASSERT_EQ(seen.size(), 8U);
    for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(seen[i].offset, scattered(i));
}

TEST(StoreMemory, AReadThatWaitsTooLongTimesOutAndIsNotFetched) {
    Scene scene;
    scene.mode = Mode::manual;
    scene.arena = 256 * 1024;
    scene.deadline = std::chrono::milliseconds(50);
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    std::vector<fake::PendingPtr> readers;
    for (std::uint64_t i = 0; i < 5; ++i) readers.push_back(h.start(big, (i * 37 + 5) * kBlockSize, 100));
    EXPECT_EQ(readers[4]->wait().error().code, ETIMEDOUT);
    h.origin.complete_all();
    for (std::uint64_t i = 0; i < 4; ++i) {
        Harness::expect_bytes(*readers[i], *big, (i * 37 + 5) * kBlockSize, 100);
    }
    EXPECT_EQ(h.origin.seen().size(), 4U);
}

TEST(StoreMemory, TheRamTierGivesWay) {
    Scene scene;
    scene.arena = scene.ram = 2 * kMiB;
    Harness h(scene);
    for (int i = 0; i < 100; ++i) h.check(fake::object("o" + std::to_string(i), 200000), 0, 200000);
    const StoreStats stats = h.store->stats();
    EXPECT_LE(stats.data_memory_bytes, 2 * kMiB);
    EXPECT_GT(stats.ram.evicted_bytes, 0U);
    EXPECT_EQ(stats.origin_bytes, 100U * 200000U);
}

TEST(StoreMemory, ARepliesMemoryComesBackToWhoWaitsAlthoughTheRamTierKeepsIt) {
    Scene scene;
    scene.arena = scene.ram = 256 * 1024;
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    std::vector<fake::PendingPtr> holders;
    for (std::uint64_t i = 0; i < 4; ++i) {
        holders.push_back(h.start(big, (i * 37 + 5) * kBlockSize, kBlockSize));
        ASSERT_TRUE(holders.back()->done());
    }
    const auto waiting = h.start(big, 900 * kBlockSize, kBlockSize);
    EXPECT_FALSE(waiting->done());
    holders[2]->forget();
    Harness::expect_bytes(*waiting, *big, 900 * kBlockSize, kBlockSize);
}

TEST(StoreMemory, ASlowNvmeWriterHoldsReadersBackButDoesNotStopThem) {
    Scene scene;
    scene.arena = scene.ram = kMiB;
    scene.nvme = true;
    Harness h(scene);
    h.nvme.holds = true;
    std::vector<fake::PendingPtr> readers;
    std::vector<std::shared_ptr<const ObjectRef>> objects;
    for (int i = 0; i < 40; ++i) {
        objects.push_back(fake::object("o" + std::to_string(i), 100000));
        readers.push_back(h.start(objects.back(), 0, 100000));
    }
    for (std::size_t i = 0; i < readers.size(); ++i) {
        while (!readers[i]->done()) {
            h.nvme.write_one();
            std::this_thread::yield();
        }
        Harness::expect_bytes(*readers[i], *objects[i], 0, 100000);
    }
}

TEST(StoreMemory, AReadOfMoreThanCanEverFitIsRefused) {
    Scene scene;
    scene.arena = kMiB;
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    EXPECT_EQ(h.start(big, 32 * kMiB, 2 * kMiB)->wait().error().code, EINVAL);
    h.check(big, 32 * kMiB + 1, 256 * 1024);
}

TEST(StoreMemory, AStopDoesNotWaitForAnOriginThatHoldsARead) {
    Scene scene;
    scene.mode = Mode::manual;
    Harness h(scene);
    const auto object = fake::object("held", 100'000);
    auto held = h.start(object, 0, 4096);
    EXPECT_FALSE(h.store->stop(std::chrono::milliseconds(100))) << "must not be destroyed yet";
    h.origin.complete_all();
    EXPECT_TRUE(h.store->stop());
    held->wait();
}

/// Everything at once: every byte is right, memory stays inside the arena, nothing hangs.
void hammer(const Scene& scene, unsigned threads, unsigned reads_each) {
    Harness h(scene);
    std::vector<std::shared_ptr<const ObjectRef>> objects;
    objects.push_back(fake::object("big", 16 * kMiB + 4321));
    objects.push_back(fake::object("huge", 64 * kMiB));
    for (int i = 0; i < 6; ++i) objects.push_back(fake::object("s" + std::to_string(i), 1 + 55555U * i));
    std::vector<std::thread> readers;
    for (unsigned t = 0; t < threads; ++t) {
        readers.emplace_back([&, t] {
            std::mt19937 random(t);
            std::uint64_t stream = 0;
            for (unsigned i = 0; i < reads_each; ++i) {
                const auto& object = objects[t % 4 == 0 ? 0 : random() % objects.size()];
                std::uint64_t at = random() % (object->size + 100);
                if (t % 4 == 0) at = stream % object->size;
                const std::uint32_t length = t % 4 == 0 ? 40000 : random() % 150000;
                h.check(object, at, length);
                stream = at + length;
            }
        });
    }
    for (std::thread& reader : readers) reader.join();
    const StoreStats stats = h.store->stats();
    EXPECT_EQ(stats.read_errors, 0U);
    EXPECT_EQ(stats.ram_bytes + stats.nvme_bytes + stats.origin_bytes, stats.read_bytes);
    const auto& store = static_cast<const TieredStore&>(*h.store);
    EXPECT_LE(store.arena().peak(), scene.arena);
    h.origin.stop();
    h.store->stop();
}

TEST(StoreMemory, ManyReadersInATinyArenaAllFinish) {
    Scene scene;
    scene.mode = Mode::threads;
    scene.threads = 4;
    scene.arena = scene.ram = kMiB;
    hammer(scene, 64, 12);
}

TEST(StoreMemory, ManyReadersWithoutARamTierAllFinish) {
    Scene scene;
    scene.mode = Mode::threads;
    scene.threads = 4;
    scene.arena = 2 * kMiB;
    scene.ram = 0;
    hammer(scene, 32, 12);
}

TEST(StoreMemory, ManyReadersOverAllTiersAllFinish) {
    Scene scene;
    scene.mode = Mode::threads;
    scene.threads = 4;
    scene.arena = 16 * kMiB;
    scene.ram = 8 * kMiB;
    scene.nvme = true;
    hammer(scene, 32, 16);
}

TEST(StoreMemory, StopInTheMiddleOfReadsAnswersAllOfThem) {
    Scene scene;
    scene.mode = Mode::threads;
    scene.threads = 2;
    scene.arena = scene.ram = kMiB;
    Harness h(scene);
    const auto big = fake::object("big", 64 * kMiB);
    std::vector<std::thread> readers;
    std::atomic<unsigned> answered{0};
    for (unsigned t = 0; t < 16; ++t) {
        readers.emplace_back([&, t] {
            std::mt19937 random(t);
            for (;;) {
                const auto reader = h.start(big, random() % big->size, 100000);
                const bool fine = reader->wait().has_value();
                EXPECT_TRUE(fine || reader->wait().error().code == ECANCELED);
                answered.fetch_add(1);
                if (!fine) return;
            }
        });
    }
    while (answered.load() < 50) std::this_thread::yield();
    h.origin.stop();
    h.store->stop();
    for (std::thread& reader : readers) reader.join();
}

}  // namespace memory_test
}  // namespace tierfs
