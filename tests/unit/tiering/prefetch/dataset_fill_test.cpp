// The fill that nobody asked for: what it offers after some reads, and what it never offers.
#include "tiering/prefetch/dataset_fill.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "config/base/mutex.hpp"
#include "tests/unit/tiering/store/fakes.hpp"

namespace tierfs {
namespace dataset_fill_test {

constexpr std::uint64_t kSize = 16 * 1024;
constexpr std::size_t kFolders = 10, kInFolder = 200, kFiles = kFolders * kInFolder;

std::string folder_name(std::size_t number) {
    return "d" + std::to_string(number);
}

std::string path_of(std::size_t place) {
    char name[16];
    std::snprintf(name, sizeof(name), "f%05zu", place);
    return "set/" + folder_name(place / kInFolder) + "/" + name;
}

DirectoryEntry entry(const std::string& name, ObjectKind kind) {
    DirectoryEntry made;
    made.name = name;
    made.attributes.kind = kind;
    made.attributes.size = kind == ObjectKind::file ? kSize : 0;
    made.attributes.version = "v1";
    return made;
}

/// A fill, and who takes its offers at once.
struct Scene {
    explicit Scene(std::uint64_t risk = kFiles * kSize,
                   DatasetFill::Scope scope = DatasetFill::Scope::recognised, Share share = {})
        : fill(listings, [this](const auto& object) { return take(object); }) {
        for (const char* other : {"before", "set", "zafter"}) {
            origin.listings[""].push_back(entry(other, ObjectKind::directory));
            origin.listings[other];
        }
        for (const char* other : {"before", "zafter"}) {
            for (int i = 0; i < 100; ++i)
                origin.listings[other].push_back(entry("x" + std::to_string(1000 + i), ObjectKind::file));
        }
        for (std::size_t i = 0; i < kFiles; ++i) {
            const std::string folder = "set/" + folder_name(i / kInFolder);
            if (i % kInFolder == 0)
                origin.listings["set"].push_back(entry(folder_name(i / kInFolder), ObjectKind::directory));
            origin.listings[folder].push_back(entry(path_of(i).substr(folder.size() + 1), ObjectKind::file));
        }
        options.scope = scope;
        options.risk = risk;
        options.share = share;
    }
    ~Scene() { fill.stop(); }

    void start() {
        fill.start(options, [this] { over = true; });
    }
    DatasetFill::Offered take(const std::shared_ptr<const ObjectRef>& object) {
        MutexLock lock(mutex);
        if (room == 0) return DatasetFill::Offered::full;
        --room;
        offered.insert(object->path);
        return DatasetFill::Offered::taken;
    }
    void read(std::size_t place, bool missed = true) {
        fill.note(*fake::object(path_of(place), kSize), missed);
    }
    std::set<std::string> all_offered() {
        MutexLock lock(mutex);
        return offered;
    }
    std::size_t count() { return all_offered().size(); }
    bool reaches(std::size_t least) {
        const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
        while (count() < least) {
            if (std::chrono::steady_clock::now() > deadline) return false;
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
        }
        return true;
    }
    void settle_briefly() { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }
    /// What it offers by and by has been offered.
    void settle() {
        for (std::size_t before = ~std::size_t{0}, quiet = 0; quiet < 5;) {
            std::this_thread::sleep_for(std::chrono::milliseconds(40));
            const std::size_t now = count();
            quiet = now == before ? quiet + 1 : 0;
            before = now;
        }
    }

    fake::FakeOrigin origin{fake::FakeOrigin::Mode::at_once};
    DatasetFill::Options options;
    Mutex mutex;
    std::set<std::string> offered TIERFS_GUARDED_BY(mutex);
    std::size_t room TIERFS_GUARDED_BY(mutex) = kFiles * 2;
    std::atomic<bool> over{false};
    RecentListings listings{origin, std::chrono::milliseconds(0)};
    DatasetFill fill;
};

std::vector<std::size_t> shuffled(std::size_t begin, std::size_t end, std::size_t step, unsigned seed) {
    std::vector<std::size_t> places;
    for (; begin < end; begin += step) places.push_back(begin);
    std::mt19937 random(seed);
    std::shuffle(places.begin(), places.end(), random);
    return places;
}

TEST(RecognisedFill, FewScatteredReadsStartItAndMostOfTheRestIsOffered) {
    Scene scene;
    scene.start();
    const auto order = shuffled(0, kFiles, 1, 3);
    for (std::size_t i = 0; i < 64; ++i) scene.read(order[i]);
    ASSERT_TRUE(scene.reaches(kFiles * 7 / 10)) << scene.count();
    scene.settle();
    for (std::size_t i = 0; i < 32; ++i) {
        EXPECT_FALSE(scene.all_offered().contains(path_of(order[i]))) << "its reader has it";
    }
    EXPECT_FALSE(scene.all_offered().contains("before/x1000"));
    EXPECT_FALSE(scene.all_offered().contains("zafter/x1000"));
    // More reads show more of what is meant; in the end nobody had to ask for more than a few.
    for (std::size_t i = 64; i < kFiles / 2; ++i) scene.read(order[i]);
    scene.settle();
    std::set<std::string> known = scene.all_offered();
    for (std::size_t i = 0; i < kFiles / 2; ++i) known.insert(path_of(order[i]));
    EXPECT_GE(known.size(), kFiles - kFiles / 20);
}

TEST(RecognisedFill, ReadsThatFindAllStartNothing) {
    Scene scene;
    scene.start();
    const auto order = shuffled(0, kFiles, 1, 10);
    std::size_t read = 0;
    for (; read < kFiles / 4; ++read) scene.read(order[read], false);
    scene.settle();
    EXPECT_EQ(scene.count(), 0U);
    for (const std::size_t end = read + 64; read < end; ++read) scene.read(order[read]);
    EXPECT_TRUE(scene.reaches(kFiles / 10)) << scene.count();
}

TEST(RecognisedFill, OfAShardOnlyTheShard) {
    Scene scene;
    scene.start();
    const auto order = shuffled(1, kFiles, 4, 4);
    for (std::size_t i = 0; i < order.size() / 2; ++i) scene.read(order[i]);
    ASSERT_TRUE(scene.reaches(order.size() / 3));
    scene.settle();
    const auto offered = scene.all_offered();
    for (std::size_t i = 0; i < kFiles; ++i) {
        EXPECT_TRUE(i % 4 == 1 || !offered.contains(path_of(i))) << i;
    }
}

TEST(RecognisedFill, OfSomeFoldersOnlyThose) {
    Scene scene;
    scene.start();
    auto order = shuffled(2 * kInFolder, 3 * kInFolder, 1, 5);
    const auto more = shuffled(7 * kInFolder, 8 * kInFolder, 1, 6);
    for (std::size_t i = 0; i < 100; ++i) {
        scene.read(order[i]);
        scene.read(more[i]);
    }
    ASSERT_TRUE(scene.reaches(150)) << scene.count();
    scene.settle();
    const auto offered = scene.all_offered();
    for (std::size_t i = 0; i < kFiles; ++i) {
        const std::size_t folder = i / kInFolder;
        EXPECT_TRUE(folder == 2 || folder == 7 || !offered.contains(path_of(i))) << i;
    }
}

TEST(RecognisedFill, ReadersInOrderStartNothing) {
    Scene scene;
    scene.start();
    for (std::size_t i = 0; i < kFiles; ++i) scene.read((i % 4) * (kFiles / 4) + i / 4);  // four of them
    scene.settle();
    EXPECT_EQ(scene.count(), 0U);
}

TEST(RecognisedFill, WhatNobodyReadsIsBounded) {
    constexpr std::size_t kRisk = 100;
    Scene scene(kRisk * kSize);
    scene.start();
    const auto order = shuffled(0, kFiles, 1, 7);
    std::size_t read = 0;
    for (; read < 64; ++read) scene.read(order[read]);
    ASSERT_TRUE(scene.reaches(kRisk));
    scene.settle();
    EXPECT_LE(scene.count(), kRisk + 64 + 1);
    for (; read < 300; ++read) scene.read(order[read]);
    scene.settle();
    const auto offered = scene.all_offered();
    std::size_t unread = offered.size();
    for (std::size_t i = 0; i < read; ++i) unread -= offered.contains(path_of(order[i])) ? 1 : 0;
    EXPECT_GT(offered.size(), kRisk + 200);
    EXPECT_LE(unread, kRisk + read + 1);
}

TEST(RecognisedFill, EndsWhereReadersDoNotFindWhatChanceWouldLetThemFind) {
    constexpr std::size_t kRisk = 300;
    Scene scene(kRisk * kSize);
    scene.start();
    const auto order = shuffled(0, kFiles, 1, 8);
    std::size_t read = 0;
    for (; read < 64; ++read) scene.read(order[read]);
    ASSERT_TRUE(scene.reaches(kRisk));
    for (std::size_t i = read; i < order.size() && !scene.over; ++i) {
        if (scene.all_offered().contains(path_of(order[i]))) continue;  // as if it knew
        scene.read(order[i]);
        ++read;
        if (read % 16 == 0) scene.settle_briefly();
    }
    EXPECT_TRUE(scene.over);
    EXPECT_LE(scene.count(), kRisk + read + 1);
}

TEST(RecognisedFill, EndsWhenTheTiersAreFull) {
    Scene scene;
    {
        MutexLock lock(scene.mutex);
        scene.room = 10;
    }
    scene.start();
    const auto order = shuffled(0, kFiles, 1, 9);
    for (std::size_t i = 0; i < 200; ++i) scene.read(order[i]);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!scene.over && std::chrono::steady_clock::now() < deadline)
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(scene.over);
    EXPECT_EQ(scene.count(), 10U);
}

TEST(DatasetFill, WalksAllWhenAskedAndGoesOnListening) {
    Scene scene;
    scene.options.stays = true;
    int walks = 0;
    scene.options.begins = [&] { ++walks; };
    scene.start();
    EXPECT_EQ(scene.count(), 0U);
    scene.fill.walk_all();
    ASSERT_TRUE(scene.reaches(kFiles + 200));
    EXPECT_EQ(walks, 1);
    {
        MutexLock lock(scene.mutex);
        scene.offered.clear();
        scene.room = kFiles * 2;
    }
    scene.fill.walk_all();
    ASSERT_TRUE(scene.reaches(kFiles + 200)) << "each once more";
    EXPECT_FALSE(scene.over);
    scene.fill.stop();
}

TEST(DatasetFill, AShardIsEveryNthFileInTheOrderOfTheWalk) {
    Scene scene(0, DatasetFill::Scope::all, {1, 3});
    scene.start();
    ASSERT_TRUE(scene.reaches((kFiles + 200) / 3));
    scene.settle();
    const auto offered = scene.all_offered();
    EXPECT_TRUE(offered.contains("before/x1001"));
    EXPECT_FALSE(offered.contains("before/x1000"));
    for (std::size_t i = 0; i < kFiles; ++i) EXPECT_EQ(offered.contains(path_of(i)), (100 + i) % 3 == 1) << i;
}

}  // namespace dataset_fill_test
}  // namespace tierfs
