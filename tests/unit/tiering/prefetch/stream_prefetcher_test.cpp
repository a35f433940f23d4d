#include "tiering/prefetch/stream_prefetcher.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <set>
#include <vector>

namespace tierfs {
namespace stream_prefetcher_test {

constexpr std::uint64_t kMiB = 1 << 20;
constexpr std::uint64_t kKiB = 1 << 10;

struct Bench {
    explicit Bench(std::uint64_t size = 1024 * kMiB, PrefetchLimits limits = {}) : prefetcher(limits) {
        object.content = content_id("s", "o", "v");
        object.size = size;
    }
    PrefetchAdvice read(std::uint64_t at, std::uint64_t length) {
        return prefetcher.observe(object, at, std::min(object.size, at + length), now);
    }
    /// Everything that is wanted now, in MiB from the start.
    std::vector<std::uint64_t> wanted() {
        std::vector<std::uint64_t> units;
        EXPECT_TRUE(prefetcher.begin_issue(object.content));
        while (const auto part = prefetcher.next(object.content)) {
            EXPECT_EQ(part->begin % kMiB, 0U);
            for (std::uint64_t at = part->begin; at < part->end; at += kMiB) units.push_back(at / kMiB);
        }
        EXPECT_FALSE(prefetcher.end_issue(object.content));
        return units;
    }

    std::uint64_t wanted_bytes() {
        std::uint64_t bytes = 0;
        if (!prefetcher.begin_issue(object.content)) return 0;
        while (const auto part = prefetcher.next(object.content)) bytes += part->end - part->begin;
        prefetcher.end_issue(object.content);
        return bytes;
    }

    StreamPrefetcher prefetcher;
    ObjectRef object;
    StreamPrefetcher::Clock::time_point now{std::chrono::hours(1)};
};

TEST(StreamPrefetcher, AReadAtZeroOpensAWindowOfOnePart) {
    Bench b;
    EXPECT_TRUE(b.read(0, 128 * kKiB).sequential);
    EXPECT_EQ(b.wanted(), (std::vector<std::uint64_t>{0, 1}));
}

TEST(StreamPrefetcher, TheWindowDoublesToItsLimitAndEachPartIsWantedOnceInOrder) {
    Bench b;
    std::vector<std::uint64_t> all;
    std::uint64_t most = 0;
    for (std::uint64_t at = 0; at < 200 * kMiB; at += 128 * kKiB) {
        b.read(at, 128 * kKiB);
        for (const std::uint64_t unit : b.wanted()) {
            EXPECT_EQ(unit, all.size());
            all.push_back(unit);
        }
        most = std::max(most, all.size() * kMiB - at);
    }
    EXPECT_LE(most, 65 * kMiB);
    EXPECT_GE(most, 63 * kMiB);
}

TEST(StreamPrefetcher, AMidwayRunIsAStreamFromItsSecondAdjacentReadOn) {
    Bench b;
    EXPECT_FALSE(b.read(100 * kMiB + 5, 64 * kKiB).sequential);
    EXPECT_TRUE(b.wanted().empty());
    const PrefetchAdvice advice = b.read(100 * kMiB + 5 + 64 * kKiB, 64 * kKiB);
    EXPECT_TRUE(advice.sequential);
    EXPECT_EQ(advice.begin, 100 * kMiB + 5);
    EXPECT_EQ(b.wanted(), (std::vector<std::uint64_t>{100, 101}));
}

TEST(StreamPrefetcher, ReadsOfAStreamMayComeOutOfOrder) {
    Bench b;
    std::mt19937 random(1);
    std::vector<std::uint64_t> order;
    for (std::uint64_t i = 0; i < 800; ++i) order.push_back(i);
    for (std::size_t i = 0; i < order.size(); i += 4) {
        std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(i),
                     order.begin() + static_cast<std::ptrdiff_t>(i + 4), random);
    }
    std::uint64_t next = 0;
    unsigned lonely = 0;
    for (const std::uint64_t i : order) {
        if (!b.read(i * 128 * kKiB, 128 * kKiB).sequential) ++lonely;
        for (const std::uint64_t unit : b.wanted()) EXPECT_EQ(unit, next++);
    }
    EXPECT_LE(lonely, 3U) << "before the stream is recognised";
    EXPECT_GE(next, 160U);
}

TEST(StreamPrefetcher, RandomReadsWantNothing) {
    for (const std::uint64_t size : {64 * kMiB, 1024 * kMiB}) {
        Bench b(size);
        std::mt19937_64 random(7);
        std::uint64_t bytes = 0;
        const std::uint64_t reads = 5000;
        for (std::uint64_t i = 0; i < reads; ++i) {
            b.read((1 + random() % (size / kBlockSize - 1)) * kBlockSize, kBlockSize);
            bytes += b.wanted_bytes();
        }
        EXPECT_LE(bytes, reads * kBlockSize / 10) << "read amplification over 1.1";
    }
}

TEST(StreamPrefetcher, RandomReadsAfterALongStreamDoNotDriveIt) {
    Bench b;
    for (std::uint64_t at = 0; at < 300 * kMiB; at += kMiB) {
        b.read(at, kMiB);
        b.wanted();
    }
    std::mt19937_64 random(7);
    std::uint64_t parts = 0;
    for (int i = 0; i < 2000; ++i) {
        b.read((400 + random() % 600) * kMiB + kKiB * (random() % 900), 64 * kKiB);
        parts += b.wanted().size();
    }
    EXPECT_LE(parts, 12U);
}

TEST(StreamPrefetcher, SeveralStreamsOfOneObjectRunSideBySide) {
    Bench b;
    std::array<std::vector<std::uint64_t>, 4> wanted;
    for (std::uint64_t step = 0; step < 160; ++step) {
        for (std::uint64_t s = 0; s < 4; ++s) {
            b.read(s * 256 * kMiB + step * 128 * kKiB, 128 * kKiB);
            for (const std::uint64_t unit : b.wanted()) wanted[unit / 256].push_back(unit);
        }
    }
    EXPECT_EQ(b.prefetcher.active_streams(), 4U);
    for (std::uint64_t s = 0; s < 4; ++s) {
        ASSERT_GE(wanted[s].size(), 20U);
        for (std::size_t i = 0; i < wanted[s].size(); ++i) EXPECT_EQ(wanted[s][i], s * 256 + i);
    }
}

TEST(StreamPrefetcher, ManyStreamsShareWhatThereIs) {
    PrefetchLimits limits;
    limits.all_streams = 32 * kMiB;
    Bench b(1024 * kMiB, limits);
    std::array<std::uint64_t, 4> furthest{};
    for (std::uint64_t step = 0; step < 160; ++step) {
        for (std::uint64_t s = 0; s < 4; ++s) {
            b.read(s * 256 * kMiB + step * 128 * kKiB, 128 * kKiB);
            for (const std::uint64_t unit : b.wanted()) {
                furthest[unit / 256] = std::max(furthest[unit / 256], unit % 256);
            }
        }
    }
    for (const std::uint64_t unit : furthest) EXPECT_LE(unit * kMiB, 20 * kMiB + 8 * kMiB);
}

TEST(StreamPrefetcher, ASecondPassIsAStreamAgain) {
    Bench b(8 * kMiB + 5);
    for (int pass = 0; pass < 3; ++pass) {
        std::uint64_t next = 0;
        for (std::uint64_t at = 0; at < b.object.size; at += 256 * kKiB) {
            EXPECT_TRUE(b.read(at, 256 * kKiB).sequential) << "pass " << pass << " at " << at;
            for (const std::uint64_t unit : b.wanted()) EXPECT_EQ(unit, next++);
        }
        EXPECT_EQ(next, 9U);
        EXPECT_EQ(b.prefetcher.active_streams(), 0U) << "at its end";
    }
}

TEST(StreamPrefetcher, AStreamThatNobodyReadsIsOver) {
    Bench b;
    b.read(0, kMiB);
    b.read(kMiB, kMiB);
    EXPECT_EQ(b.prefetcher.active_streams(), 1U);
    b.now += std::chrono::seconds(60);
    b.read(500 * kMiB, 4096);
    EXPECT_EQ(b.prefetcher.active_streams(), 0U);
    EXPECT_TRUE(b.wanted().empty());
}

TEST(StreamPrefetcher, APartPutBackIsOfferedAgain) {
    Bench b;
    b.read(0, 128 * kKiB);
    ASSERT_TRUE(b.prefetcher.begin_issue(b.object.content));
    EXPECT_FALSE(b.prefetcher.begin_issue(b.object.content)) << "one at a time";
    const auto part = b.prefetcher.next(b.object.content);
    ASSERT_TRUE(part.has_value());
    EXPECT_EQ(part->begin, 0U);
    b.prefetcher.put_back(b.object.content, *part);
    EXPECT_EQ(b.prefetcher.next(b.object.content)->begin, 0U);
    EXPECT_TRUE(b.prefetcher.end_issue(b.object.content)) << "somebody wanted to issue meanwhile";
    EXPECT_FALSE(b.prefetcher.end_issue(b.object.content));
}

TEST(StreamPrefetcher, PartsGrowWithTheWindowAndCrossNoUnit) {
    PrefetchLimits limits;
    limits.unit = 4 * kMiB;
    Bench b(1024 * kMiB - 5, limits);
    std::uint64_t expected = 0, longest = 0;
    for (std::uint64_t at = 0; at < b.object.size; at += 128 * kKiB) {
        b.read(at, 128 * kKiB);
        if (!b.prefetcher.begin_issue(b.object.content)) break;  // read to its end
        while (const auto part = b.prefetcher.next(b.object.content)) {
            EXPECT_EQ(part->begin, expected);
            EXPECT_EQ(part->begin / limits.unit, (part->end - 1) / limits.unit);
            if (part->begin < 2 * kMiB) {
                EXPECT_LE(part->end - part->begin, kMiB) << "the first parts come soon";
            }
            longest = std::max(longest, part->end - part->begin);
            expected = part->end;
        }
        b.prefetcher.end_issue(b.object.content);
    }
    EXPECT_EQ(expected, b.object.size);
    EXPECT_EQ(longest, limits.unit);
}

TEST(StreamPrefetcher, AFetchedReadBringsItsPartAlongAndNothingBeforeTheRun) {
    PrefetchLimits limits;
    limits.unit = 4 * kMiB;
    Bench b(1024 * kMiB, limits);
    const PrefetchAdvice head = b.read(0, 4096);
    EXPECT_EQ(head.begin, 0U);
    EXPECT_EQ(head.end, kMiB) << "who reads a header alone pays for one part";
    const std::uint64_t start = 100 * kMiB + 5;
    b.read(start, 64 * kKiB);
    const PrefetchAdvice run = b.read(start + 64 * kKiB, 64 * kKiB);
    EXPECT_EQ(run.begin, start);
    EXPECT_EQ(run.end, 101 * kMiB);
}

TEST(StreamPrefetcher, ARunBackwardsIsFetchedBeforeItOnceAndToItsBeginning) {
    Bench b(100 * kMiB);
    std::vector<std::uint64_t> all;
    for (std::uint64_t at = 100 * kMiB; at >= 64 * kKiB;) {
        at -= 64 * kKiB;
        b.read(at, 64 * kKiB);
        for (const std::uint64_t unit : b.wanted()) {
            EXPECT_LE(unit * kMiB, at);
            all.push_back(unit);
        }
    }
    std::sort(all.begin(), all.end());
    EXPECT_EQ(std::adjacent_find(all.begin(), all.end()), all.end()) << "twice";
    EXPECT_GE(all.size(), 99U);
    EXPECT_EQ(b.prefetcher.active_streams(), 0U) << "at the beginning";
}

TEST(StreamPrefetcher, TwoReadsBackwardsAreNoRun) {
    Bench b;
    b.read(500 * kMiB, 64 * kKiB);
    b.read(500 * kMiB - 64 * kKiB, 64 * kKiB);
    EXPECT_TRUE(b.wanted().empty());
}

/// Bytes wanted after reads of `length` at each of `places`, and how many of them are not in `pieces`.
struct Wanted {
    std::uint64_t bytes = 0, beside = 0, twice = 0;
};
Wanted strided(Bench& b, const std::vector<std::uint64_t>& places, std::uint64_t length,
               std::uint64_t message) {
    Wanted found;
    std::set<std::uint64_t> pieces, seen;
    for (const std::uint64_t place : places) {
        for (std::uint64_t at = 0; at < length; at += kBlockSize) pieces.insert(place + at);
    }
    for (const std::uint64_t place : places) {
        for (std::uint64_t at = 0; at < length; at += message) b.read(place + at, message);
        if (!b.prefetcher.begin_issue(b.object.content)) continue;
        while (const auto part = b.prefetcher.next(b.object.content)) {
            for (std::uint64_t at = part->begin; at < part->end; at += kBlockSize) {
                found.bytes += kBlockSize;
                if (!pieces.contains(at)) found.beside += kBlockSize;
                if (!seen.insert(at).second) found.twice += kBlockSize;
            }
        }
        b.prefetcher.end_issue(b.object.content);
    }
    return found;
}

TEST(StreamPrefetcher, OfAStridedRunOnlyThePiecesAreWanted) {
    for (const std::int64_t gap :
         {10 * static_cast<std::int64_t>(kMiB), -7 * static_cast<std::int64_t>(kMiB)}) {
        Bench b(2048 * kMiB);
        std::vector<std::uint64_t> places;
        const std::uint64_t first = gap > 0 ? 2 * kMiB : 1500 * kMiB;
        for (std::int64_t i = 0; i < 150; ++i)
            places.push_back(static_cast<std::uint64_t>(static_cast<std::int64_t>(first) + i * gap));
        const Wanted found = strided(b, places, 256 * kKiB, 256 * kKiB);
        EXPECT_GE(found.bytes, 140 * 256 * kKiB) << gap;
        EXPECT_EQ(found.twice, 0U);
        // Beyond the last one read there are those of the window.
        EXPECT_LE(found.beside, 64 * kMiB) << gap;
    }
}

TEST(StreamPrefetcher, PiecesThatCostSeveralMessagesAreNotRunOver) {
    Bench b(1024 * kMiB);
    std::vector<std::uint64_t> places;
    for (std::uint64_t i = 0; i * 16 < 960; ++i) places.push_back(i * 16 * kMiB + 8 * kMiB);
    const Wanted found = strided(b, places, 512 * kKiB, 128 * kKiB);
    EXPECT_GE(found.bytes, 50 * 512 * kKiB);
    EXPECT_LE(found.beside, 20 * kMiB) << "before the gap is known, and past the end";
}

TEST(StreamPrefetcher, AStridedRunEndsWhenReadsGoElsewhere) {
    Bench b(1024 * kMiB);
    for (std::uint64_t i = 0; i < 20; ++i) b.read(i * 5 * kMiB + kMiB, 64 * kKiB);
    b.wanted_bytes();
    std::mt19937_64 random(3);
    std::uint64_t bytes = 0;
    for (int i = 0; i < 200; ++i) {
        b.read((200 * 16 + random() % 12000) * kBlockSize, kBlockSize);
        bytes += b.wanted_bytes();
    }
    EXPECT_LE(bytes, 20 * kBlockSize);
}

TEST(StreamPrefetcher, AfterASeekTheRestOfTheWindowWaitsUntilTheRunIsReadAgain) {
    Bench b;
    for (std::uint64_t at = 0; at < 4 * kMiB; at += 128 * kKiB) b.read(at, 128 * kKiB);
    for (const std::uint64_t place : {900U, 500U, 700U}) b.read(place * kMiB, 64 * kKiB);
    EXPECT_EQ(b.wanted_bytes(), 0U);
    b.read(4 * kMiB, 128 * kKiB);
    EXPECT_GE(b.wanted_bytes(), 60 * kMiB);
}

TEST(StreamPrefetcher, TwentyFourStreamsOfOneObject) {
    Bench b(2400 * kMiB);
    for (std::uint64_t step = 0; step < 20; ++step) {
        for (std::uint64_t s = 0; s < 24; ++s)
            EXPECT_TRUE(b.read(s * 100 * kMiB + step * 128 * kKiB, 128 * kKiB).sequential || step <= 1) << s;
    }
    EXPECT_EQ(b.prefetcher.active_streams(), 24U);
}

TEST(StreamPrefetcher, ForgottenObjectsWantNothing) {
    Bench b;
    b.read(0, kMiB);
    b.prefetcher.forget(b.object.content);
    EXPECT_EQ(b.prefetcher.active_streams(), 0U);
    EXPECT_TRUE(b.wanted().empty());
}

TEST(StreamPrefetcher, MemoryIsBoundedOverManyObjects) {
    Bench b;
    for (int i = 0; i < 20000; ++i) {
        b.object.content = content_id("s", std::to_string(i), "v");
        b.read(0, kMiB);
    }
    EXPECT_LE(b.prefetcher.active_streams(), StreamPrefetcher::kObjects);
}

}  // namespace stream_prefetcher_test
}  // namespace tierfs
