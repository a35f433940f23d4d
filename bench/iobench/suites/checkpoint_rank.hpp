// One rank of the suite checkpoint: it writes its part of a checkpoint and reads it back.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "config/base/result.hpp"

namespace tierfs::iobench {

struct RankPlan {
    std::string directory;
    unsigned rank = 0;
    std::uint64_t size = 0;   ///< bytes of the rank's file
    std::uint64_t chunk = 0;  ///< bytes of a write and of a read; a multiple of 4096
    std::uint64_t seed = 0;   ///< the content belongs to it, to the rank and to the place in the file
};

/// Times by CLOCK_MONOTONIC, in nanoseconds; lies in Shared memory.
struct RankTimes {
    std::uint64_t started = 0, ended = 0;
    std::uint64_t fsync = 0;  ///< spent in fsync of the file and of the directory
};

/// DIRECTORY/rank_0003
std::string rank_file(const RankPlan& plan);

/// The content of a rank's file: one chunk of random bytes again and again, in which each page of 4 KiB
/// begins with 8 bytes that belong to its place. So it is made and compared nearly at the speed of memory,
/// and a page of another place, rank or run is found.
class Pattern {
  public:
    explicit Pattern(const RankPlan& plan);

    /// The bytes from `offset`, a multiple of the chunk; at most a chunk of them. Valid until the next call.
    std::span<const std::byte> at(std::uint64_t offset);

    /// Where `found`, read at `offset`, is not the content: the number of its first wrong byte in the file.
    /// -1: it is right.
    std::int64_t first_difference(std::uint64_t offset, std::span<const std::byte> found);

  private:
    std::uint64_t size_, seed_;
    std::vector<std::byte> chunk_;
};

/// Writes a temporary file chunk by chunk, fsync, rename, fsync of the directory (where it has one): after it
/// the file is durable under its name. `begin` is called when everything is prepared; the time counts from
/// its return. What is left of a rank that failed is the caller's to remove.
Result<void> write_rank(const RankPlan& plan, RankTimes& times, const std::function<void()>& begin);

/// Reads the file chunk by chunk and compares. EIO with file and place where it is shorter, longer or
/// different.
Result<void> read_rank(const RankPlan& plan, RankTimes& times, const std::function<void()>& begin);

}  // namespace tierfs::iobench
