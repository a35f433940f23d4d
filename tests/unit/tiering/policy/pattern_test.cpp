#include "tiering/policy/pattern.hpp"

#include <gtest/gtest.h>

#include "tests/unit/model.hpp"
#include "tests/unit/tiering/policy/reading.hpp"

namespace tierfs {
namespace pattern_test {

using namespace reading;

TEST(Pattern, ShuffledEpochsOfOneReaderAreAnEpochFromTheFirstWindowOn) {
    for (const std::uint64_t items : {150U, 300U, 2000U, 20000U}) {
        PatternRecogniser recogniser;
        const Judged judged = read_epochs(recogniser, items, 1, 4, items);
        EXPECT_GT(judged.windows, 1U) << items;
        EXPECT_EQ(judged.share(Pattern::epoch), 1.0) << items;
    }
}

TEST(Pattern, ReadersWithSeedsOfTheirOwnAreStillAnEpoch) {
    for (const unsigned readers : {2U, 4U, 8U, 32U}) {
        PatternRecogniser recogniser;
        const Judged judged = read_epochs(recogniser, 3000, readers, 3, readers);
        EXPECT_EQ(judged.share(Pattern::epoch), 1.0) << readers;
    }
}

TEST(Pattern, UniformChanceIsAnEpochSinceNothingIsHotter) {
    PatternRecogniser recogniser;
    std::mt19937_64 random(5);
    Judged judged;
    for (int i = 0; i < 60000; ++i) {
        if (read_file(recogniser, random() % 5000)) judged.take(recogniser);
    }
    EXPECT_GE(judged.share(Pattern::epoch), 0.99);
}

TEST(Pattern, SkewIsHot) {
    for (const auto& [items, exponent] :
         {std::pair{100000U, 0.9}, std::pair{5000U, 0.9}, std::pair{20000U, 1.2}, std::pair{1000000U, 1.0}}) {
        PatternRecogniser recogniser;
        Zipf zipf(items, exponent, items);
        Judged judged;
        for (int i = 0; i < 100000; ++i) {
            if (read_file(recogniser, zipf.next())) judged.take(recogniser);
        }
        EXPECT_GE(judged.share(Pattern::hot), 0.9) << items << ' ' << exponent;
    }
}

TEST(Pattern, NamesInOrderAreOnceUntilTheyComeAgain) {
    PatternRecogniser recogniser;
    Judged first, second;
    for (const std::uint64_t number : in_order(5000)) {
        if (read_file(recogniser, number)) first.take(recogniser);
    }
    EXPECT_EQ(first.share(Pattern::once), 1.0);
    for (const std::uint64_t number : in_order(5000)) {
        if (read_file(recogniser, number)) second.take(recogniser);
    }
    EXPECT_GE(second.share(Pattern::epoch), 0.9);
}

TEST(Pattern, WorkersThatShareOneOrderAreStillInOrder) {
    PatternRecogniser recogniser;
    std::mt19937_64 random(8);
    auto order = in_order(5000);
    for (std::size_t i = 0; i + 8 <= order.size(); i += 8)
        std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(i),
                     order.begin() + static_cast<std::ptrdiff_t>(i + 8), random);
    Judged judged;
    for (const std::uint64_t number : order) {
        if (read_file(recogniser, number)) judged.take(recogniser);
    }
    EXPECT_EQ(judged.share(Pattern::once), 1.0);
}

/// Large files in pieces of 128 KiB; the kernel sends those of a window in any order.
void read_stream(PatternRecogniser& recogniser, std::uint64_t number, std::uint64_t units, Judged& judged) {
    const std::string path = path_of(number);
    constexpr std::uint64_t kUnit = std::uint64_t{kStreamUnitBlocks} * kBlockSize;
    for (std::uint64_t unit = 0; unit < units; ++unit) {
        for (std::uint32_t pair = 0; pair < kStreamUnitBlocks; pair += 2) {
            const std::uint32_t piece = pair ^ 2U;
            const std::uint64_t begin = unit * kUnit + std::uint64_t{piece} * kBlockSize;
            const PatternRead read{UnitKey{id_of(number), unit}, path,  block_range(piece, 2), begin,
                                   begin + 2 * kBlockSize,       kUnit, unit + pair > 0};
            if (recogniser.observe(read)) judged.take(recogniser);
        }
    }
}

TEST(Pattern, LargeFilesFromStartToEndAreAStreamUntilTheyComeAgain) {
    PatternRecogniser recogniser;
    Judged first, second;
    std::mt19937_64 random(9);
    for (const std::uint64_t number : shuffled(20, random)) read_stream(recogniser, number, 100, first);
    EXPECT_EQ(first.windows, 8U);  // one visit for each 4 MiB
    EXPECT_EQ(first.share(Pattern::stream), 1.0);
    for (const std::uint64_t number : shuffled(20, random)) read_stream(recogniser, number, 100, second);
    EXPECT_GE(second.share(Pattern::epoch), 0.6) << "but for files that come soon again by chance";
}

TEST(Pattern, PiecesOfOneVisitOutOfOrderAreNoRepeats) {
    PatternRecogniser recogniser;
    std::mt19937_64 random(10);
    Judged judged;
    // Eight readers at once, each with files of 1 MiB in pieces of 48 KiB, whose ends share blocks.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> pieces;
    for (std::uint64_t group = 0; group < 400; ++group) {
        pieces.clear();
        for (std::uint64_t file = 0; file < 8; ++file) {
            for (std::uint64_t at = 0; at < 1 << 20; at += 48 << 10)
                pieces.emplace_back(group * 8 + file, at);
        }
        std::shuffle(pieces.begin(), pieces.end(), random);
        for (const auto& [number, begin] : pieces) {
            const std::uint64_t end = std::min<std::uint64_t>(1 << 20, begin + (48 << 10));
            const auto first = static_cast<std::uint32_t>(begin / kBlockSize);
            const auto blocks = block_range(first, static_cast<std::uint32_t>(block_count(end)) - first);
            const std::string path = path_of(number * 7919 % 3200);
            if (recogniser.observe({UnitKey{id_of(number), 0}, path, blocks, begin, end, 1 << 20, false}))
                judged.take(recogniser);
        }
    }
    EXPECT_EQ(judged.count[Pattern::hot], 0U);
    EXPECT_EQ(judged.last.repeats, 0U);
    EXPECT_NEAR(judged.windows, 3200.0 / 256, 2.0);
}

TEST(Pattern, RandomBlocksOfOneLargeFileAreAnEpoch) {
    PatternRecogniser recogniser;
    std::mt19937_64 random(11);
    Judged judged;
    for (int i = 0; i < 60000; ++i) {
        const std::uint64_t unit = random() % 2048;
        const auto block = static_cast<std::uint32_t>(random() % kStreamUnitBlocks);
        const std::uint64_t begin = (unit * kStreamUnitBlocks + block) * kBlockSize;
        const PatternRead read{UnitKey{id_of(1), unit},
                               "large",
                               block_range(block, 1),
                               begin,
                               begin + kBlockSize,
                               4 << 20,
                               false};
        if (recogniser.observe(read)) judged.take(recogniser);
    }
    EXPECT_GE(judged.windows, 2U);
    EXPECT_EQ(judged.share(Pattern::epoch), 1.0);
}

TEST(Pattern, KnowsAboutHowLargeTheDatasetIs) {
    PatternRecogniser recogniser;
    const Judged judged = read_epochs(recogniser, 100000, 1, 2, 3);
    EXPECT_NEAR(static_cast<double>(judged.last.items), 100000, 10000);
    EXPECT_NEAR(static_cast<double>(judged.last.bytes), 100000.0 * 16384, 10000.0 * 16384);
}

TEST(Pattern, ForgetsWhatNobodyReadsAnyMore) {
    PatternRecogniser recogniser;
    read_epochs(recogniser, 3000, 1, 1, 4);
    Judged judged;
    std::mt19937_64 random(4);
    for (int epoch = 0; epoch < 40; ++epoch) {
        for (const std::uint64_t number : shuffled(400, random)) {
            if (read_file(recogniser, 10000 + number)) judged.take(recogniser);
        }
    }
    EXPECT_EQ(judged.last.items, 400U);
    EXPECT_EQ(PatternRecogniser::judge(judged.last), Pattern::epoch);
}

TEST(Pattern, AnyNumberOfReadersItemsAndEpochsIsAnEpoch) {
    model::check(30, [] {
        const auto items = *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(130, 9000));
        const auto readers = *rc::gen::resize(100, rc::gen::inRange<unsigned>(1, 17));
        const auto seed = *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(0, 1U << 20U));
        PatternRecogniser recogniser;
        const Judged judged = read_epochs(recogniser, items, readers, readers > 4 ? 2 : 4, seed);
        RC_ASSERT(judged.windows > 0U);
        RC_ASSERT(judged.share(Pattern::epoch) >= 0.98);
    });
}

TEST(Pattern, SkewOfAnySizeIsHotInMostWindows) {
    model::check(20, [] {
        const auto items = *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(1000, 50000));
        const auto tenths = *rc::gen::resize(100, rc::gen::inRange<unsigned>(9, 14));
        const auto seed = *rc::gen::resize(100, rc::gen::inRange<std::uint64_t>(0, 1U << 20U));
        PatternRecogniser recogniser;
        Zipf zipf(items, tenths / 10.0, seed);
        Judged judged;
        for (int i = 0; i < 20000; ++i) {
            if (read_file(recogniser, zipf.next())) judged.take(recogniser);
        }
        RC_ASSERT(judged.share(Pattern::hot) >= 0.8);
    });
}

}  // namespace pattern_test
}  // namespace tierfs
