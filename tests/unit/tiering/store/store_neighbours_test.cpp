// Small files read in the order of their directory: the store fetches the next ones ahead.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "tests/unit/tiering/store/harness.hpp"

namespace tierfs {
namespace store_neighbours_test {

using fake::FakeOrigin;
using fake::Harness;
using fake::Scene;

constexpr std::uint64_t kSize = 110 * 1024;
constexpr std::size_t kFiles = 300;

std::string path_of(std::size_t number) {
    char name[16];
    std::snprintf(name, sizeof(name), "a/f%04zu", number);
    return name;
}

Scene scene(std::size_t files = kFiles) {
    Scene made;
    DirectoryEntry entry;
    for (std::size_t i = 0; i < files; ++i) {
        entry.name = path_of(i).substr(2);
        entry.attributes.size = kSize;
        entry.attributes.version = "v1";
        made.listings["a"].push_back(entry);
    }
    return made;
}

void read(Harness& h, std::size_t number) {
    h.check(fake::object(path_of(number), kSize), 0, kSize);
}

std::map<std::string, std::vector<Priority>> requests(Harness& h) {
    std::map<std::string, std::vector<Priority>> by_path;
    for (const auto& one : h.origin.seen()) by_path[one.path].push_back(one.priority);
    return by_path;
}

/// Reads on until readahead goes; the next file to read. Longer and longer between two reads: the thread that lists
/// the directory may get no processor for a while, and readahead must begin after few of them.
/// Files are fetched ahead no further than they are listed, so that few pages leave little to that thread.
std::size_t begin_run(Harness& h, std::size_t names_of_page = kFiles) {
    h.origin.names_of_page = names_of_page;
    std::size_t next = 0;
    while (h.store->stats().prefetched_bytes == 0 && next < 60) {
        read(h, next++);
        std::this_thread::sleep_for(std::chrono::milliseconds(2) * next);
    }
    EXPECT_LT(next, 60U) << "no readahead";
    return next;
}

TEST(StoreNeighbours, ARunThroughADirectoryIsFetchedAheadOnce) {
    Harness h(scene());
    std::size_t next = begin_run(h, 100);
    ASSERT_LT(next, 40U);
    for (; next < kFiles; ++next) read(h, next);
    const auto by_path = requests(h);
    EXPECT_EQ(by_path.size(), kFiles);
    std::size_t ahead = 0;
    for (const auto& [path, priorities] : by_path) {
        EXPECT_EQ(priorities.size(), 1U) << path;
        ahead += priorities[0] == Priority::prefetch ? 1 : 0;
    }
    EXPECT_GE(ahead, kFiles - 60);
}

TEST(StoreNeighbours, TheWindowIsBoundedAndASeekEndsIt) {
    Scene made = scene();
    made.window = fake::kMiB;  // nine files
    Harness h(made);
    std::size_t next = begin_run(h);
    for (const std::size_t to = next + 20; next < to; ++next) read(h, next);
    auto by_path = requests(h);
    EXPECT_TRUE(by_path.contains(path_of(next + 5)));
    EXPECT_FALSE(by_path.contains(path_of(next + 10)));
    const std::size_t before = by_path.size();
    read(h, 250);
    read(h, 200);
    read(h, 150);
    EXPECT_EQ(requests(h).size(), before + 3);
}

TEST(StoreNeighbours, NoneWithoutAWindow) {
    Scene made = scene();
    made.window = 0;
    Harness h(made);
    for (std::size_t i = 0; i < kFiles; ++i) read(h, i);
    EXPECT_EQ(h.store->stats().prefetched_bytes, 0U);
}

TEST(StoreNeighbours, ShuffledReadsFetchNothingInVain) {
    Scene made = scene();
    made.ram = 0;
    made.arena = 16 * fake::kMiB;
    Harness h(made);
    std::vector<std::size_t> order(kFiles);
    for (std::size_t i = 0; i < kFiles; ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), std::mt19937(3));
    for (const std::size_t number : order) read(h, number);
    EXPECT_LE(h.origin.seen_bytes(), (kFiles + kFiles / 20) * kSize);
}

TEST(StoreNeighbours, AListingIsTrustedForever) {
    Scene made;
    made.ram = 0;
    made.arena = 16 * fake::kMiB;
    made.ttl = kForever;
    std::vector<std::string> paths;
    for (std::size_t folder = 0; folder < 10; ++folder) {
        const std::string name = "d" + std::to_string(folder);
        for (std::size_t i = 0; i < 100; ++i) {
            DirectoryEntry entry;
            entry.name = path_of(i).substr(2);
            entry.attributes.size = 4096;
            entry.attributes.version = "v1";
            paths.push_back(name + "/" + entry.name);
            made.listings[name].push_back(entry);
        }
    }
    Harness h(made);
    std::shuffle(paths.begin(), paths.end(), std::mt19937(3));
    for (int epoch = 0; epoch < 3; ++epoch)
        for (const auto& path : paths) h.check(fake::object(path, 4096), 0, 4096);
    EXPECT_LE(h.origin.lists, 100U) << "each directory once, in ten pages";
}

TEST(StoreNeighbours, AFailureAheadIsNoFailureOfTheReader) {
    Scene made = scene();
    Harness h(made);
    std::size_t next = begin_run(h);
    h.origin.set_mode(FakeOrigin::Mode::manual);
    read(h, next++);  // it is there; the window goes on
    ASSERT_GT(h.origin.waiting(), 0U);
    h.origin.complete_all(EIO);
    h.origin.set_mode(FakeOrigin::Mode::at_once);
    for (; next < 100; ++next) read(h, next);
}

TEST(StoreNeighbours, StopsWhileADirectoryIsListedAndFilesAreUnderWay) {
    Scene made = scene();
    made.mode = FakeOrigin::Mode::threads;
    made.threads = 2;
    for (int round = 0; round < 5; ++round) {
        Harness h(made);
        for (std::size_t i = 0; i < 10U + 10U * static_cast<unsigned>(round); ++i) read(h, i);
    }
}

}  // namespace store_neighbours_test
}  // namespace tierfs
