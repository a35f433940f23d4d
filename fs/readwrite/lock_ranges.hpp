// Ranges of a file that one owner has locked.
#pragma once

#include <vector>

#include "backends/origin/posix_locks.hpp"

namespace tierfs {

/// As fcntl(2) has it: what is locked anew takes the place of what was there, parts of ranges can be let go,
/// neighbours of one kind are one range. `pid` of the locks given does not matter, and is 0 in those
/// returned. Plain value.
class LockRanges {
  public:
    /// Kind none: lets go.
    void set(const FileLock& lock);
    [[nodiscard]] bool empty() const { return ranges_.empty(); }
    /// In order, none touching another one of its kind.
    [[nodiscard]] const std::vector<FileLock>& all() const { return ranges_; }
    /// The first that keeps another owner from what he wants; null: none.
    [[nodiscard]] const FileLock* in_the_way(const FileLock& wanted) const;
    /// What all bytes of a range are, gaps as kind none: to be set again if what is about to change must not.
    [[nodiscard]] std::vector<FileLock> within(const FileLock& range) const;

  private:
    std::vector<FileLock> ranges_;
};

}  // namespace tierfs
