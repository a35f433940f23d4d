// Files of a dataset that its readers mean, guessed from those that they have read. Decides only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tierfs {

/// Files are numbered in storage order. Nothing in one pass that reads a random part of the files tells
/// that part from all of them: whatever is fetched ahead, the same share of the reads finds it. But parts
/// that are given to ranks are rarely random. This recognises:
///
/// - every n-th file (rank r of n reads r, r + n, ...): of the places read, `kAgree` in 100 agree modulo n;
/// - ranges (a block of the files, some directories, some classes): between two neighbouring places read,
///   where readers choose at random, gaps are spread exponentially, so that one of kWideGap times the median
///   (0.69 of the mean) has the chance of exp(-0.69 kWideGap), 1 in 4,000. A longer gap, and what lies
///   outside of all places read, is meant for others. Both shrink as more is read.
///
/// Places come from reads that are new to the tiers. Not thread-safe.
class ReadPlaces {
  public:
    static constexpr std::size_t kLeast = 24;  ///< with fewer nothing is meant
    static constexpr std::uint64_t kWideGap = 12;
    static constexpr std::uint64_t kMostShards = 256;
    static constexpr std::uint64_t kAgree = 90;

    /// File `place` was read; the latest kMost are remembered.
    void add(std::uint64_t place);
    void clear();
    [[nodiscard]] std::size_t count() const { return recent_.size(); }

    /// Looks at the places added so far; `meant` answers by what it saw.
    void judge();
    [[nodiscard]] bool meant(std::uint64_t place) const;
    /// n of "every n-th file"; 1: all.
    [[nodiscard]] std::uint64_t every() const { return every_; }

  private:
    static constexpr std::size_t kMost = 2048;
    struct Agreement {
        std::uint64_t rest = 0;
        std::uint64_t count = 0;
    };
    static Agreement agreement(std::span<const std::uint64_t> places, std::uint64_t shards);
    void judge_shards();
    void judge_gaps();

    std::vector<std::uint64_t> recent_;  ///< a ring once it is full
    std::size_t oldest_ = 0;
    std::vector<std::uint64_t> sorted_;  ///< without doubles, and without those that disagree on `every_`
    std::uint64_t every_ = 1, rest_ = 0;
    std::uint64_t widest_ = 0;  ///< gap that is meant
};

}  // namespace tierfs
