// Runs through the files of one directory, in the order of their names. Decides only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace tierfs {

/// Files are numbered as the directory is listed. Several runs at a time, each of one reader or of several
/// who take turns (so that numbers come a little out of order), each through all files or every n-th one.
///
/// A run counts from its third file on (its sixth where files of this directory were mostly read at random),
/// once half of the files between its ends were read: shuffled reads come close to each other by chance, but
/// do not fill the space between them. From then on its window doubles with each file. A read that belongs
/// nowhere starts a new run, and the least recently used of kRuns goes. Not thread-safe.
class DirectoryRuns {
  public:
    static constexpr std::size_t kRuns = 24;
    static constexpr std::uint64_t kFirstWindow = 4;

    /// Files begin, begin + step, ... below `end`, to be fetched now.
    struct Wanted {
        std::uint64_t begin = 0, end = 0, step = 1;
    };
    /// File `place` was read. At most `most` files are wanted ahead of a run.
    std::optional<Wanted> observe(std::uint64_t place, std::uint64_t most);
    /// `wanted` could not be fetched from `place` on; it will be wanted again.
    void put_back(const Wanted& wanted, std::uint64_t place);
    /// The first `count` files are numbered no longer; the others from 0 on again.
    void renumber(std::uint64_t count);
    /// Up to where files are wanted or will be soon.
    [[nodiscard]] std::uint64_t horizon() const;

  private:
    struct Run {
        std::uint64_t first = 0, last = 0;  ///< lowest and highest file read
        std::uint64_t step = 0;             ///< 0: not known yet
        std::uint64_t count = 1;            ///< files read
        std::uint64_t window = 0;           ///< files; 0: not a run yet
        std::uint64_t next = 0;             ///< from here on nothing was wanted yet
        std::uint64_t used = 0;             ///< number of its latest read
    };
    [[nodiscard]] static bool belongs(const Run& run, std::uint64_t place);
    static void take_in(Run& run, std::uint64_t place);
    [[nodiscard]] static bool is_dense(const Run& run);

    std::vector<Run> runs_;
    std::uint64_t reads_ = 0, seeks_ = 0, continued_ = 0;
};

}  // namespace tierfs
