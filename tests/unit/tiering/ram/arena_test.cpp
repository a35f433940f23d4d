#include "tiering/ram/arena.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace tierfs {
namespace arena_test {

std::shared_ptr<Arena> make(std::uint64_t bytes) {
    auto arena = Arena::create(bytes, nullptr);
    EXPECT_TRUE(arena.has_value());
    return *arena;
}

TEST(Arena, RoundsSizesUpToPages) {
    EXPECT_EQ(Arena::rounded(1), 4096U);
    EXPECT_EQ(Arena::rounded(4097), 8192U);
    EXPECT_EQ(Arena::rounded(110 * 1024), 112U * 1024U);
    EXPECT_EQ(Arena::rounded(9 * 65536), 9U * 65536U);
}

TEST(Arena, CountsEachByteAsFreshOnce) {
    const auto arena = make(16 << 20);
    const auto buffer = arena->allocate(1 << 20);
    ASSERT_NE(buffer, nullptr);
    EXPECT_EQ(buffer->take_fresh(0, 4096), 4096U);
    EXPECT_EQ(buffer->take_fresh(0, 4096), 0U);
    EXPECT_EQ(buffer->take_fresh(0, 65536), 65536U - 4096U);
    EXPECT_EQ(buffer->take_fresh(252 << 10, 260 << 10), 8192U);  // over the edge of a word of the bitmap
    EXPECT_EQ(buffer->take_fresh(0, 1 << 20), (1U << 20) - 65536U - 8192U);
    EXPECT_EQ(buffer->take_fresh(0, 1 << 20), 0U);

    const auto small = arena->allocate(10'000);
    EXPECT_EQ(small->take_fresh(0, 10'000), 10'000U);
    EXPECT_EQ(small->take_fresh(9'999, 10'000), 0U);
}

TEST(Arena, RefusesImpossibleSizes) {
    const auto arena = make(16 << 20);
    EXPECT_EQ(arena->allocate(0), nullptr);
    EXPECT_EQ(arena->allocate(Arena::kLargest + 1), nullptr);
    EXPECT_NE(arena->allocate(Arena::kLargest), nullptr);
    EXPECT_FALSE(Arena::create(4095, nullptr).has_value());
    EXPECT_FALSE(Arena::create(~std::uint64_t{0}, nullptr).has_value());
}

TEST(Arena, IsUsableToItsLastPageWhateverItsSize) {
    for (const std::uint64_t pages : {1U, 3U, 17U, 2047U, 2048U, 5000U}) {
        const auto arena = make(pages * 4096 + 4095);
        EXPECT_EQ(arena->capacity(), pages * 4096);
        std::vector<ArenaBufferPtr> held;
        while (auto buffer = arena->allocate(4096)) held.push_back(std::move(buffer));
        EXPECT_EQ(held.size(), pages);
        EXPECT_EQ(arena->in_use(), arena->capacity());
        held.clear();
        EXPECT_EQ(arena->in_use(), 0U);
    }
}

TEST(Arena, BuffersOutliveTheArenasOwner) {
    auto arena = make(1 << 20);
    const auto buffer = arena->allocate(100);
    arena.reset();
    std::memset(buffer->writable().data(), 1, buffer->writable().size());
    EXPECT_EQ(buffer->bytes().size(), 100U);
}

TEST(Arena, TellsTheListenerUnlessTheBufferIsQuiet) {
    struct Counter : FreeListener {
        int calls = 0;
        void memory_freed() noexcept override { ++calls; }
    };
    const auto counter = std::make_shared<Counter>();
    const auto arena = *Arena::create(1 << 20, counter);
    arena->allocate(5);
    EXPECT_EQ(counter->calls, 1);
    arena->allocate(5)->quiet = true;
    EXPECT_EQ(counter->calls, 1);
}

/// Whether the kernel was advised to use huge pages for this memory; nothing: it does not say.
std::optional<bool> is_for_huge_pages(const std::byte* memory) {
    const auto wanted = reinterpret_cast<std::uintptr_t>(memory);
    std::ifstream smaps("/proc/self/smaps");
    bool inside = false;
    for (std::string line; std::getline(smaps, line);) {
        std::uintptr_t begin = 0, end = 0;
        char dash = 0;
        std::istringstream words(line);
        if (words >> std::hex >> begin >> dash >> end && dash == '-') {
            inside = begin <= wanted && wanted < end;
        } else if (inside && line.starts_with("VmFlags:")) {
            return (line + " ").find(" hg ") != std::string::npos;
        }
    }
    return std::nullopt;
}

TEST(Arena, AsksForHugePagesWhenItIsLarge) {
    if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
        GTEST_SKIP() << "the kernel has no transparent huge pages";
    const auto large = make(256 << 20)->allocate(4096);
    const auto small = make(255 << 20)->allocate(4096);
    EXPECT_EQ(is_for_huge_pages(large->writable().data()), true);
    EXPECT_EQ(is_for_huge_pages(small->writable().data()), false) << "it would take more than it needs";
}

/// The model: a map of what is taken. Pieces never overlap, are aligned, have room; when all is back, it is
/// one piece again.
TEST(Arena, AgreesWithAModelOverRandomUse) {
    const std::uint64_t capacity = 3 * Arena::kLargest + 13 * 4096;
    const auto arena = make(capacity);
    const std::byte* base = nullptr;
    {
        std::vector<ArenaBufferPtr> all;
        while (auto buffer = arena->allocate(4096)) {
            if (base == nullptr || buffer->writable().data() < base) base = buffer->writable().data();
            all.push_back(std::move(buffer));
        }
    }
    std::mt19937 random(42);
    std::map<std::uint64_t, ArenaBufferPtr> taken;  // by offset
    std::uint64_t in_use = 0;
    for (int step = 0; step < 20000; ++step) {
        if (random() % 100 < 55) {
            std::size_t size = 1 + random() % 70000;
            if (random() % 8 == 0) size = 1 + random() % Arena::kLargest;
            auto buffer = arena->allocate(size);
            if (!buffer) {
                ASSERT_GT(in_use + 2 * Arena::rounded(size), capacity / 8) << "refused while nearly empty";
                continue;
            }
            ASSERT_EQ(buffer->capacity(), Arena::rounded(size));
            ASSERT_EQ(buffer->bytes().size(), size);
            const auto offset = static_cast<std::uint64_t>(buffer->writable().data() - base);
            ASSERT_EQ(offset % 4096, 0U);
            ASSERT_LE(offset + buffer->capacity(), capacity);
            const auto next = taken.lower_bound(offset);
            if (next != taken.end()) {
                ASSERT_LE(offset + buffer->capacity(), next->first);
            }
            if (next != taken.begin()) {
                const auto& before = *std::prev(next);
                ASSERT_LE(before.first + before.second->capacity(), offset);
            }
            in_use += buffer->capacity();
            taken.emplace(offset, std::move(buffer));
        } else if (!taken.empty()) {
            auto victim = taken.begin();
            std::advance(victim, random() % taken.size());
            in_use -= victim->second->capacity();
            taken.erase(victim);
        }
        ASSERT_EQ(arena->in_use(), in_use);
    }
    taken.clear();
    std::vector<ArenaBufferPtr> largest;
    while (auto buffer = arena->allocate(Arena::kLargest)) largest.push_back(std::move(buffer));
    EXPECT_EQ(largest.size(), 3U) << "what came back did not grow together";
}

/// Two nodes, with processors of a third that has no memory; `here` is where the caller runs.
struct Machine {
    unsigned here = 0;
    std::vector<std::pair<int, std::size_t>> bound;
    NumaNodes nodes() {
        NumaNodes result;
        result.nodes = {0, 2};
        result.nearest = {{0, 1}, {1, 0}, {1, 0}};
        result.current = [this] { return here; };
        result.prefer = [this](void*, std::size_t bytes, int node) { bound.emplace_back(node, bytes); };
        return result;
    }
};

TEST(Arena, TakesMemoryNearTheCallerAndElsewhereWhenThatIsFull) {
    constexpr std::uint64_t kEach = 64 << 20;
    Machine machine;
    const auto arena = *Arena::create(2 * kEach + 4096, nullptr, machine.nodes());
    ASSERT_EQ(machine.bound.size(), 2U);
    EXPECT_EQ(machine.bound[0], (std::pair<int, std::size_t>{0, kEach}));
    EXPECT_EQ(machine.bound[1], (std::pair<int, std::size_t>{2, kEach + 4096}));
    const auto node_of = [&](const ArenaBufferPtr& buffer) { return arena->node_of(buffer->bytes().data()); };
    EXPECT_EQ(node_of(arena->allocate(1 << 20)), 0);
    machine.here = 1;  // without memory: the nearest node that has some
    EXPECT_EQ(node_of(arena->allocate(1 << 20)), 2);
    machine.here = 2;
    EXPECT_EQ(node_of(arena->allocate(4096)), 2);
    machine.here = 9;  // came up later
    EXPECT_EQ(node_of(arena->allocate(4096)), 0);
    std::vector<ArenaBufferPtr> held;
    machine.here = 0;
    for (int i = 0; i < 8; ++i) held.push_back(arena->allocate(Arena::kLargest));
    EXPECT_EQ(node_of(held.back()), 0);
    held.push_back(arena->allocate(Arena::kLargest));
    EXPECT_EQ(node_of(held.back()), 2) << "its own node is full";
    held.clear();
    EXPECT_EQ(arena->in_use(), 0U);
    EXPECT_EQ(node_of(arena->allocate(Arena::kLargest)), 0) << "what came back is its node's again";
}

TEST(Arena, IsNotDividedWhereTheNodesPartsWouldBeTooSmall) {
    Machine machine;
    const auto arena = *Arena::create(100 << 20, nullptr, machine.nodes());
    EXPECT_TRUE(machine.bound.empty());
    EXPECT_FALSE(arena->node_of(arena->allocate(4096)->bytes().data()));
}

TEST(Arena, FindsTheNodesOfThisMachine) {
    const NumaNodes nodes = NumaNodes::of_this_machine();
    ASSERT_FALSE(nodes.nodes.empty());
    const unsigned here = nodes.current();
    if (nodes.nodes.size() > 1) {
        ASSERT_LT(here, nodes.nearest.size());
        EXPECT_EQ(nodes.nearest[here].size(), nodes.nodes.size());
    }
}

TEST(Arena, ServesManyThreads) {
    const auto arena = make(4 << 20);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < 8; ++t) {
        threads.emplace_back([&, t] {
            std::mt19937 random(t);
            std::vector<ArenaBufferPtr> held;
            for (int i = 0; i < 2000; ++i) {
                if (auto buffer = arena->allocate(1 + random() % 100000)) {
                    std::memset(buffer->writable().data(), static_cast<int>(t), 64);
                    held.push_back(std::move(buffer));
                }
                if (held.size() > 8) held.erase(held.begin());
                for (const auto& buffer : held) {
                    ASSERT_EQ(buffer->writable()[63], static_cast<std::byte>(t));
                }
            }
        });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(arena->in_use(), 0U);
}

/// Pages of the piece that are resident.
std::size_t resident_pages(ArenaBuffer& buffer) {
    std::vector<unsigned char> pages(buffer.capacity() / Arena::kPage);
    EXPECT_EQ(::mincore(buffer.writable().data(), buffer.capacity(), pages.data()), 0);
    return static_cast<std::size_t>(
        std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1U) != 0; }));
}

template <typename Condition>
bool comes_true(const Condition& condition) {
    for (int tries = 0; tries < 3000; ++tries) {
        if (condition()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
}

TEST(GrowingArena, HasAsMuchResidentAsIsInUse) {
    const auto arena = make(Arena::kGrowsFrom);
    EXPECT_EQ(arena->opened(), 0U);
    const auto first = arena->allocate(Arena::kLargest);
    ASSERT_NE(first, nullptr);
    ASSERT_TRUE(comes_true([&] { return arena->opened() >= 2 * Arena::kLargest; }));
    EXPECT_LT(arena->opened(), 48U << 20) << "no more than is wanted";
    // What is asked for while the next part is on its way comes from behind that.
    std::vector<ArenaBufferPtr> held;
    EXPECT_TRUE(comes_true([&] {
        held.push_back(arena->allocate(4 << 20, Arena::Memory::resident));
        return held.back() == nullptr || resident_pages(*held.back()) == (4U << 20) / Arena::kPage;
    }));
    EXPECT_NE(held.back(), nullptr);
}

TEST(GrowingArena, IsUsableToItsEnd) {
    constexpr std::uint64_t kBytes = Arena::kGrowsFrom + (5 << 20) + 3 * Arena::kPage;
    const auto arena = make(kBytes);
    std::vector<ArenaBufferPtr> pieces;
    const auto take_all = [&](std::size_t size) {
        while (auto piece = arena->allocate(size)) pieces.push_back(std::move(piece));
        return arena->in_use();
    };
    EXPECT_TRUE(comes_true([&] { return take_all(1 << 20) >= kBytes - (1 << 20); }));
    EXPECT_TRUE(comes_true([&] { return take_all(Arena::kPage) == kBytes; }));
    EXPECT_EQ(arena->opened(), kBytes);
    EXPECT_EQ(arena->allocate(1, Arena::Memory::resident), nullptr);
    pieces.clear();
    EXPECT_NE(arena->allocate(Arena::kLargest, Arena::Memory::resident), nullptr)
        << "what was touched stays so";
}

TEST(GrowingArena, WhatNobodyTouchedIsForWhoHasNothingElse) {
    const auto arena = make(4 * Arena::kGrowsFrom);
    std::vector<ArenaBufferPtr> pieces;
    // Faster than a thread of low rank makes anything resident, beyond the first bytes, which count as touched.
    while (auto piece = arena->allocate(Arena::kLargest, Arena::Memory::resident)) {
        pieces.push_back(std::move(piece));
        ASSERT_LE(arena->in_use(), arena->opened());
    }
    EXPECT_GE(arena->in_use() + (64U << 20), Arena::kGrowsFrom) << "but for what was being made resident";
    if (arena->in_use() + 2 * Arena::kLargest < arena->capacity())
        EXPECT_NE(arena->allocate(Arena::kLargest), nullptr);
}

}  // namespace arena_test
}  // namespace tierfs
