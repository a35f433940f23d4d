// Ranges of one owner against an array with the kind of each byte.
#include "fs/readwrite/lock_ranges.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/unit/model.hpp"

namespace tierfs {
namespace lock_ranges_test {

using Kind = FileLock::Kind;

FileLock lock(Kind kind, std::uint64_t first, std::uint64_t last) {
    return {kind, first, last, 0};
}

TEST(LockRanges, WhatIsLockedAnewTakesThePlaceOfWhatWasThere) {
    LockRanges ranges;
    ranges.set(lock(Kind::shared, 0, 99));
    ranges.set(lock(Kind::exclusive, 40, 49));
    ranges.set(lock(Kind::none, 90, 99));
    EXPECT_EQ(ranges.all(), (std::vector{lock(Kind::shared, 0, 39), lock(Kind::exclusive, 40, 49),
                                         lock(Kind::shared, 50, 89)}));
    ranges.set(lock(Kind::shared, 40, 49));
    EXPECT_EQ(ranges.all(), std::vector{lock(Kind::shared, 0, 89)});
    ranges.set(lock(Kind::none, 0, FileLock::kEnd));
    EXPECT_TRUE(ranges.empty());
}

TEST(LockRanges, TheEndIsTheEndOfAllFiles) {
    LockRanges ranges;
    ranges.set(lock(Kind::exclusive, 10, FileLock::kEnd));
    ranges.set(lock(Kind::exclusive, 0, 9));
    EXPECT_EQ(ranges.all(), std::vector{lock(Kind::exclusive, 0, FileLock::kEnd)});
    ranges.set(lock(Kind::none, FileLock::kEnd, FileLock::kEnd));
    EXPECT_EQ(ranges.all(), std::vector{lock(Kind::exclusive, 0, FileLock::kEnd - 1)});
    EXPECT_EQ(ranges.within(lock(Kind::shared, 5, FileLock::kEnd)),
              (std::vector{lock(Kind::exclusive, 5, FileLock::kEnd - 1),
                           lock(Kind::none, FileLock::kEnd, FileLock::kEnd)}));
}

TEST(LockRanges, SharedOnesAreInNobodysWayWhoShares) {
    LockRanges ranges;
    ranges.set(lock(Kind::shared, 10, 19));
    EXPECT_EQ(ranges.in_the_way(lock(Kind::shared, 0, 99)), nullptr);
    ASSERT_NE(ranges.in_the_way(lock(Kind::exclusive, 19, 19)), nullptr);
    EXPECT_EQ(ranges.in_the_way(lock(Kind::exclusive, 20, 99)), nullptr);
    EXPECT_EQ(ranges.in_the_way(lock(Kind::none, 0, 99)), nullptr);
}

TEST(LockRanges, StructFlockAndBack) {
    for (const auto& one :
         {lock(Kind::shared, 0, FileLock::kEnd), lock(Kind::exclusive, 7, 7), lock(Kind::none, 3, 10)})
        EXPECT_EQ(lock_of(flock_of(one)), one);
    EXPECT_EQ(flock_of(lock(Kind::shared, 5, FileLock::kEnd)).l_len, 0);
    EXPECT_EQ(flock_of(lock(Kind::exclusive, 5, 14)).l_len, 10);
}

constexpr std::size_t kBytes = 64;
using Bytes = std::array<Kind, kBytes>;

void expect_same(const LockRanges& ranges, const Bytes& bytes) {
    Bytes found{};
    const FileLock* before = nullptr;
    for (const auto& range : ranges.all()) {
        RC_ASSERT((range.first <= range.last && range.last < kBytes && range.kind != Kind::none));
        if (before != nullptr) {
            RC_ASSERT(before->last < range.first);
            RC_ASSERT((before->last + 1 < range.first || before->kind != range.kind));
        }
        std::fill(found.begin() + static_cast<long>(range.first),
                  found.begin() + static_cast<long>(range.last) + 1, range.kind);
        before = &range;
    }
    RC_ASSERT(found == bytes);
}

void run(const model::Commands& commands) {
    LockRanges ranges;
    Bytes bytes{};
    for (const auto& command : commands) {
        const std::uint64_t first = std::min(command.a % kBytes, command.b % kBytes);
        const std::uint64_t last = std::max(command.a % kBytes, command.b % kBytes);
        const auto wanted = lock(static_cast<Kind>(command.kind), first, last);
        const auto from = bytes.begin() + static_cast<long>(first);
        const auto to = bytes.begin() + static_cast<long>(last) + 1;
        const bool is_free = std::none_of(from, to, [&](Kind kind) {
            return kind != Kind::none && wanted.kind != Kind::none &&
                   (kind == Kind::exclusive || wanted.kind == Kind::exclusive);
        });
        RC_ASSERT((ranges.in_the_way(wanted) == nullptr) == is_free);
        const auto before = ranges.within(wanted);
        const Bytes bytes_before = bytes;
        std::fill(from, to, wanted.kind);
        ranges.set(wanted);
        expect_same(ranges, bytes);
        if (command.c % 3 != 0) continue;
        for (const auto& piece : before) ranges.set(piece);  // taken back
        bytes = bytes_before;
        expect_same(ranges, bytes);
    }
}

TEST(LockRangesModel, EachByteIsWhatItWasSetToLast) {
    model::check_commands(200, 40, {2, 3, 3}, run);
}

}  // namespace lock_ranges_test
}  // namespace tierfs
