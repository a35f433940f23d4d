// Blocks of files that a reader of the suite seqrand reads, and their order.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/iobench/suites/seqrand_case.hpp"

namespace tierfs::iobench {

/// A file that is read.
struct ReadFile {
    std::string path;      ///< ready to open
    std::string relative;  ///< as a manifest names it
    std::uint64_t size = 0;
};

/// One read: `length` bytes, less than the block size only at the end of the file.
struct Block {
    std::size_t file = 0;
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

/// The numbers 0 … count-1 in an order that belongs to a seed, each once, in no memory: a Feistel network of
/// four rounds over the next power of four, walked until the number is below `count` (Black, Rogaway:
/// "Ciphers with Arbitrary Finite Domains", 2002). A list would take 2 GiB for the 4 KiB blocks of 2 TiB, and
/// numbers drawn with replacement leave a third of the blocks out and find others in the page cache.
class Permutation {
  public:
    Permutation(std::uint64_t count, std::uint64_t seed);
    [[nodiscard]] std::uint64_t at(std::uint64_t index) const;

  private:
    std::uint64_t count_, seed_, mask_;
    unsigned half_;
};

/// When a reader stops, besides at the end of its share: with the first of these.
struct Limits {
    double seconds = 5;
    std::uint64_t bytes = 0;  ///< of one reader; 0: no limit
    bool again = false;       ///< begin its share anew at its end
};

/// The reads of one of `threads` readers. All blocks of all files, one file after another, are one list; each
/// reader has a part of the list that goes on without gaps, so that every block is read once by one reader.
/// Random: the list is put in the order of Permutation first. Not thread-safe.
class Feed {
  public:
    /// `files` outlives it and each has at least one byte. `index` < one.threads.
    Feed(const std::vector<ReadFile>& files, const ReadCase& one, unsigned index, std::uint64_t seed,
         const Limits& limits);

    /// From now on, by CLOCK_MONOTONIC, the limit of time counts.
    void start(std::uint64_t now);

    /// The next read, or nothing when the reader has come to an end. `now` may be older than the moment.
    std::optional<Block> next(std::uint64_t now);

    /// Blocks in all files.
    [[nodiscard]] std::uint64_t blocks() const { return ends_.back(); }

  private:
    [[nodiscard]] Block block(std::uint64_t number) const;

    const std::vector<ReadFile>& files_;
    const std::uint64_t block_;
    const Limits limits_;
    const bool random_;
    std::vector<std::uint64_t> ends_;  // of each file, in the list of all blocks
    Permutation permutation_;
    std::uint64_t begin_, end_, next_;
    std::uint64_t bytes_ = 0, deadline_ = 0;
};

}  // namespace tierfs::iobench
