#include "tiering/ram/page_heap.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tierfs {
namespace page_heap_test {

struct Piece {
    std::uint32_t page, count;
};

std::uint32_t free_pages(const PageHeap& heap) {
    std::uint32_t sum = 0;
    heap.for_each_free([&](std::uint32_t, std::uint32_t count) { sum += count; });
    return sum;
}

TEST(PageHeap, GivesExactlyWhatIsAskedFor) {
    PageHeap heap(1000, 1000);
    ASSERT_TRUE(heap.take(28));
    EXPECT_EQ(free_pages(heap), 972U);
    ASSERT_TRUE(heap.take(972));
    EXPECT_EQ(free_pages(heap), 0U);
    EXPECT_FALSE(heap.take(1));
}

/// Files of one size leave no holes between them, whatever their size.
TEST(PageHeap, PiecesOfOneSizeFillItUpAlsoAfterChurn) {
    for (const std::uint32_t size : {1U, 9U, 27U, 28U, 100U, 255U, 256U}) {
        PageHeap heap(size * 50 + size / 2, size * 50 + size / 2);
        std::vector<std::uint32_t> taken;
        while (const auto page = heap.take(size)) taken.push_back(*page);
        ASSERT_EQ(taken.size(), 50U) << size;
        std::mt19937 random(size);
        for (int step = 0; step < 1000; ++step) {
            auto& one = taken[random() % taken.size()];
            heap.give_back(one, size);
            const auto again = heap.take(size);
            ASSERT_TRUE(again) << size;
            one = *again;
        }
    }
}

TEST(PageHeap, WhatComesBackIsJoinedOnBothSides) {
    PageHeap heap(12, 12);
    const auto left = heap.take(4), middle = heap.take(4), right = heap.take(4);
    ASSERT_TRUE(left && middle && right);
    heap.give_back(*left, 4);
    heap.give_back(*right, 4);
    EXPECT_FALSE(heap.take(5));
    heap.give_back(*middle, 4);
    EXPECT_EQ(heap.take(12), 0U);
}

/// Where the list of its own length has only shorter runs, a longer one is cut.
TEST(PageHeap, LooksFurtherWhereRunsOfAboutItsLengthAreTooShort) {
    PageHeap heap(400, 400);
    const auto low = heap.take(32), guard = heap.take(1), high = heap.take(35), rest = heap.take(332);
    ASSERT_TRUE(low && guard && high && rest);
    heap.give_back(*low, 32);
    EXPECT_FALSE(heap.take(33)) << "32 are free, in the list for 32 to 35";
    heap.give_back(*high, 35);
    EXPECT_TRUE(heap.take(33));
    EXPECT_TRUE(heap.take(32));
}

TEST(PageHeap, LongRunsComeFromTheEnd) {
    PageHeap heap(10'000, 10'000);
    EXPECT_EQ(heap.take(256), 10'000U - 256U);
    EXPECT_EQ(heap.take(255), 0U);
}

TEST(PageHeap, AgreesWithAModelOverRandomUse) {
    constexpr std::uint32_t kPages = 5000;
    PageHeap heap(kPages, kPages);
    std::vector<bool> used(kPages);
    std::vector<Piece> taken;
    std::mt19937 random(7);
    for (int step = 0; step < 50'000; ++step) {
        if (random() % 100 < 55) {
            const std::uint32_t count = random() % 10 == 0 ? 1 + random() % 1000 : 1 + random() % 40;
            const auto page = heap.take(count);
            if (!page) continue;
            ASSERT_LE(*page + count, kPages);
            for (std::uint32_t i = 0; i < count; ++i) {
                ASSERT_FALSE(used[*page + i]);
                used[*page + i] = true;
            }
            taken.push_back({*page, count});
        } else if (!taken.empty()) {
            const std::size_t victim = random() % taken.size();
            const Piece run = taken[victim];
            taken[victim] = taken.back();
            taken.pop_back();
            for (std::uint32_t i = 0; i < run.count; ++i) used[run.page + i] = false;
            heap.give_back(run.page, run.count);
        }
    }
    heap.for_each_free([&](std::uint32_t page, std::uint32_t count) {
        for (std::uint32_t i = 0; i < count; ++i) ASSERT_FALSE(used[page + i]);
        ASSERT_TRUE(page + count == kPages || used[page + count]) << "two free runs side by side";
    });
    for (const Piece& run : taken) heap.give_back(run.page, run.count);
    EXPECT_TRUE(heap.take(kPages));
}

}  // namespace page_heap_test
}  // namespace tierfs
