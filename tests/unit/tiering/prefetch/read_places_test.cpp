// What part of a dataset its readers mean, from the places they read.
#include "tiering/prefetch/read_places.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tierfs {
namespace read_places_test {

std::vector<std::uint64_t> shuffled(std::vector<std::uint64_t> places, unsigned seed) {
    std::mt19937 random(seed);
    std::shuffle(places.begin(), places.end(), random);
    return places;
}

std::vector<std::uint64_t> range(std::uint64_t begin, std::uint64_t end, std::uint64_t step = 1) {
    std::vector<std::uint64_t> places;
    for (; begin < end; begin += step) places.push_back(begin);
    return places;
}

ReadPlaces judged(const std::vector<std::uint64_t>& places, std::size_t count) {
    ReadPlaces read;
    for (std::size_t i = 0; i < count; ++i) read.add(places[i]);
    read.judge();
    return read;
}

std::size_t meant(const ReadPlaces& read, std::uint64_t begin, std::uint64_t end) {
    std::size_t count = 0;
    for (std::uint64_t place = begin; place < end; ++place) count += read.meant(place) ? 1 : 0;
    return count;
}

TEST(ReadPlaces, MeansNothingBeforeEnoughIsRead) {
    const auto places = shuffled(range(0, 20000), 1);
    EXPECT_EQ(meant(judged(places, ReadPlaces::kLeast - 1), 0, 20000), 0U);
    EXPECT_GT(meant(judged(places, ReadPlaces::kLeast), 0, 20000), 10000U);
}

TEST(ReadPlaces, MeansAllOfAShuffledDataset) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        const auto places = shuffled(range(0, 20000), seed);
        EXPECT_GT(meant(judged(places, 64), 0, 20000), 16000U) << seed;
        const ReadPlaces later = judged(places, 1000);
        EXPECT_EQ(later.every(), 1U);
        EXPECT_GT(meant(later, 0, 20000), 19800U) << seed;
    }
}

TEST(ReadPlaces, MeansOnlyEveryNthFileOfAShard) {
    for (const std::uint64_t shards : {2U, 3U, 4U, 8U, 64U, 250U}) {
        const std::uint64_t index = shards / 2;
        const auto places = shuffled(range(index, 100 * shards, shards), static_cast<unsigned>(shards));
        const ReadPlaces read = judged(places, 48);
        EXPECT_EQ(read.every(), shards);
        for (std::uint64_t place = 0; place < 100 * shards; ++place) {
            EXPECT_TRUE(!read.meant(place) || place % shards == index) << place;
        }
        EXPECT_GT(meant(read, 0, 100 * shards), 80U) << shards;
    }
}

TEST(ReadPlaces, OneFileBesideTheShardChangesNothing) {
    auto places = shuffled(range(3, 4000, 4), 5);
    places[7] = 0;  // an index that every rank reads
    const ReadPlaces read = judged(places, 100);
    EXPECT_EQ(read.every(), 4U);
    EXPECT_FALSE(read.meant(4));
}

TEST(ReadPlaces, DoesNotGoBeyondARange) {
    for (unsigned seed = 0; seed < 20; ++seed) {
        auto places = shuffled(range(5000, 7500), seed);
        places[3] = 0;
        const ReadPlaces read = judged(places, 64);
        EXPECT_EQ(meant(read, 1, 5000) + meant(read, 7500, 20000), 0U) << seed;
        EXPECT_GT(meant(read, 5000, 7500), 1900U) << seed;
    }
}

TEST(ReadPlaces, LeavesOutWhatLiesBetweenChosenFolders) {
    std::vector<std::uint64_t> places;
    for (const std::uint64_t folder : {3U, 17U, 18U, 40U}) {
        for (std::uint64_t i = 0; i < 300; ++i) places.push_back(folder * 300 + i);
    }
    for (unsigned seed = 0; seed < 20; ++seed) {
        const ReadPlaces read = judged(shuffled(places, seed), 160);
        EXPECT_EQ(meant(read, 4 * 300, 17 * 300), 0U) << seed;
        EXPECT_EQ(meant(read, 19 * 300, 40 * 300), 0U) << seed;
        EXPECT_GT(meant(read, 17 * 300, 19 * 300), 500U) << seed;
    }
}

TEST(ReadPlaces, MeansNothingAheadOfReadersInOrder) {
    std::vector<std::uint64_t> places;
    for (std::uint64_t i = 0; i < 64; ++i) places.push_back((i % 4) * 5000 + i / 4);  // four of them
    EXPECT_LE(meant(judged(places, 64), 0, 20000), 64U);
}

TEST(ReadPlaces, ForgetsWhatWasReadLongAgo) {
    ReadPlaces read;
    for (const std::uint64_t place : shuffled(range(0, 3000), 1)) read.add(place);
    for (const std::uint64_t place : shuffled(range(10000, 13000), 2)) read.add(place);
    read.judge();
    EXPECT_EQ(meant(read, 0, 9000), 0U);
    EXPECT_GT(meant(read, 10000, 13000), 2900U);
}

}  // namespace read_places_test
}  // namespace tierfs
