#include "bench/iobench/suites/seqrand_case.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "bench/iobench/suites/seqrand_blocks.hpp"

namespace tierfs::iobench {
namespace seqrand_case_test {

std::vector<std::string> names_of(const Matrix& matrix) {
    std::vector<std::string> names;
    const auto cases = cases_of(matrix);
    EXPECT_TRUE(cases) << cases.error().message;
    if (cases)
        for (const auto& one : *cases) names.push_back(one.name());
    return names;
}

TEST(SeqRandCases, DefaultsAreFew) {
    EXPECT_EQ(names_of({}),
              (std::vector<std::string>{"read-4k-buffered-pread", "read-64k-buffered-pread",
                                        "read-1m-buffered-pread", "randread-4k-buffered-pread",
                                        "randread-64k-buffered-pread", "randread-1m-buffered-pread"}));
}

TEST(SeqRandCases, OnlyIoUringHasDepthsAndMmapHasNoEngine) {
    Matrix matrix;
    matrix.orders = {"randread"};
    matrix.blocks = {16 << 20, 512};
    matrix.modes = {"direct", "mmap"};
    matrix.engines = {"pread", "io_uring"};
    matrix.depths = {1, 32};
    matrix.threads = {1, 4};
    const auto names = names_of(matrix);
    EXPECT_EQ(
        std::vector<std::string>(names.begin(), names.begin() + 8),
        (std::vector<std::string>{"randread-16m-direct-pread", "randread-16m-direct-pread-t4",
                                  "randread-16m-direct-iouring-qd1", "randread-16m-direct-iouring-qd1-t4",
                                  "randread-16m-direct-iouring-qd32", "randread-16m-direct-iouring-qd32-t4",
                                  "randread-16m-mmap", "randread-16m-mmap-t4"}));
    EXPECT_EQ(names.size(), 16U);
    EXPECT_EQ(names.back(), "randread-512-mmap-t4");
}

TEST(SeqRandCases, WhatIsNamedTwiceIsOneCase) {
    Matrix matrix;
    matrix.orders = {"read", "read"};
    matrix.blocks = {4096, 4096};
    matrix.engines = {"io_uring", "iouring"};
    matrix.depths = {8, 8};
    EXPECT_EQ(names_of(matrix), std::vector<std::string>{"read-4k-buffered-iouring-qd8"});
}

TEST(SeqRandCases, NonsenseIsRefusedWithTheOptionsName) {
    const auto refused = [](const Matrix& matrix, const std::string& option) {
        const auto cases = cases_of(matrix);
        ASSERT_FALSE(cases) << option;
        EXPECT_EQ(cases.error().code, EINVAL);
        EXPECT_NE(cases.error().message.find(option), std::string::npos) << cases.error().message;
    };
    refused({.orders = {"write"}}, "--orders");
    refused({.blocks = {0}}, "--block-sizes");
    refused({.blocks = {600}}, "--block-sizes");
    refused({.blocks = {128 << 20}}, "--block-sizes");
    refused({.blocks = {std::numeric_limits<std::uint64_t>::max()}}, "--block-sizes");
    refused({.modes = {"odirect"}}, "--modes");
    refused({.engines = {"libaio"}}, "--engines");
    refused({.engines = {"io_uring"}, .depths = {0}}, "--depths");
    refused({.depths = {1 << 20}}, "--depths");
    refused({.threads = {0}}, "--threads");
    refused({.threads = {100000}}, "--threads");
    refused({.blocks = {64 << 20}, .engines = {"io_uring"}, .depths = {4096}, .threads = {1}}, "64 GiB");
    refused({.modes = {}}, "no case");
}

TEST(SeqRandPermutation, HasEachNumberOnceInAnOrderOfItsSeed) {
    for (const std::uint64_t count : {1, 2, 3, 4, 5, 16, 17, 63, 64, 65, 1000, 4097}) {
        std::set<std::uint64_t> seen;
        std::vector<std::uint64_t> one, other, again;
        for (std::uint64_t i = 0; i < count; ++i) {
            one.push_back(Permutation(count, 1).at(i));
            again.push_back(Permutation(count, 1).at(i));
            other.push_back(Permutation(count, 2).at(i));
        }
        seen.insert(one.begin(), one.end());
        EXPECT_EQ(seen.size(), count);
        EXPECT_EQ(*seen.rbegin(), count - 1);
        EXPECT_EQ(one, again);
        if (count >= 16) {
            EXPECT_NE(one, other) << count;
            EXPECT_FALSE(std::is_sorted(one.begin(), one.end())) << count;
        }
    }
}

TEST(SeqRandPermutation, FollowsNoneOfItsNumbersByItsNeighbour) {
    const Permutation permutation(100000, 7);
    int neighbours = 0;
    for (std::uint64_t i = 1; i < 100000; ++i) neighbours += permutation.at(i) == permutation.at(i - 1) + 1;
    EXPECT_LT(neighbours, 20);  // one is expected
}

struct Reads {
    std::vector<std::pair<std::size_t, std::uint64_t>> places;  // file, offset
    std::uint64_t bytes = 0;
};

Reads all_of(Feed& feed) {
    Reads reads;
    feed.start(0);
    while (const auto block = feed.next(0)) {
        reads.places.emplace_back(block->file, block->offset);
        reads.bytes += block->length;
        if (reads.places.size() > 1000) break;
    }
    return reads;
}

const std::vector<ReadFile> kFiles = {{"a", "a", 10000}, {"b", "b", 4096}, {"c", "c", 12288}};

TEST(SeqRandFeed, InOrderOneFileAfterAnother) {
    Feed feed(kFiles, {.block = 4096}, 0, 1, {});
    EXPECT_EQ(feed.blocks(), 7U);
    const Reads reads = all_of(feed);
    EXPECT_EQ(reads.places, (std::vector<std::pair<std::size_t, std::uint64_t>>{
                                {0, 0}, {0, 4096}, {0, 8192}, {1, 0}, {2, 0}, {2, 4096}, {2, 8192}}));
    EXPECT_EQ(reads.bytes, 10000U + 4096 + 12288);
}

TEST(SeqRandFeed, ThreadsReadEachBlockOnceTogether) {
    for (const Order order : {Order::sequential, Order::random})
        for (const unsigned threads : {1U, 2U, 3U, 7U, 9U}) {
            std::vector<std::pair<std::size_t, std::uint64_t>> places;
            std::uint64_t bytes = 0;
            for (unsigned index = 0; index < threads; ++index) {
                Feed feed(kFiles, {.order = order, .block = 4096, .threads = threads}, index, 5, {});
                const Reads reads = all_of(feed);
                places.insert(places.end(), reads.places.begin(), reads.places.end());
                bytes += reads.bytes;
            }
            EXPECT_EQ(places.size(), 7U);
            EXPECT_EQ((std::set(places.begin(), places.end()).size()), 7U);
            EXPECT_EQ(bytes, 10000U + 4096 + 12288);
        }
}

TEST(SeqRandFeed, StopsAtItsLimits) {
    Feed bytes(kFiles, {.block = 4096}, 0, 1, {.bytes = 9000});
    EXPECT_EQ(all_of(bytes).places.size(), 3U);
    Feed again(kFiles, {.block = 4096}, 0, 1, {.bytes = 100000, .again = true});
    EXPECT_GE(all_of(again).bytes, 100000U);
    Feed time(kFiles, {.block = 4096}, 0, 1, {.seconds = 1, .again = true});
    time.start(5'000'000'000);
    EXPECT_TRUE(time.next(5'000'000'000));
    EXPECT_TRUE(time.next(5'999'999'999));
    EXPECT_FALSE(time.next(6'000'000'000));
}

TEST(SeqRandFeed, MoreThreadsThanBlocksLeavesSomeWithNothing) {
    const std::vector<ReadFile> one = {{"a", "a", 10}};
    std::size_t reads = 0;
    for (unsigned index = 0; index < 5; ++index) {
        Feed feed(one, {.block = 4096, .threads = 5}, index, 1, {.bytes = 50, .again = true});
        reads += all_of(feed).places.size();
    }
    EXPECT_EQ(reads, 5U);  // the one block's reader, five times ten bytes
}

}  // namespace seqrand_case_test
}  // namespace tierfs::iobench
