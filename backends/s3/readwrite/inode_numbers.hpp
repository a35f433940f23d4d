// Inode numbers for what has none.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// A place: a directory's inode number and a name in it. Hashed with XXH3; two places of one bucket share a
/// number with a chance of 10^-6 at ten million names.
using Place = std::uint64_t;
Place place_of(std::uint64_t directory, std::string_view name);

/// What is at a place has the place as its number, which is so on every mount and after every one. What was
/// renamed here keeps the number that it had, and what is below a directory goes with the directory; what
/// comes to a place whose number is still in use elsewhere gets another. So much is remembered for the
/// renames done last (kMost): what was renamed before them gets a new number, as if replaced. Thread-safe.
class InodeNumbers {
  public:
    static constexpr std::uint64_t kRoot = 1;
    static constexpr std::size_t kMost = 1U << 18;

    std::uint64_t number(Place place) TIERFS_EXCLUDES(mutex_);
    void renamed(Place from, Place to) TIERFS_EXCLUDES(mutex_);
    /// All renames are about to be forgotten.
    [[nodiscard]] bool is_nearly_full() TIERFS_EXCLUDES(mutex_);
    void exchanged(Place one, Place other) TIERFS_EXCLUDES(mutex_);
    void removed(Place place) TIERFS_EXCLUDES(mutex_);
    /// Nothing else gets the number of what has lost its place and is open still, until it is given back.
    void keep(std::uint64_t number) TIERFS_EXCLUDES(mutex_);
    void give_back(std::uint64_t number) TIERFS_EXCLUDES(mutex_);

  private:
    std::uint64_t number_locked(Place place) TIERFS_REQUIRES(mutex_);
    void forget(Place place) TIERFS_REQUIRES(mutex_);
    void set(Place place, std::uint64_t number) TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    std::unordered_map<Place, std::uint64_t> moved_ TIERFS_GUARDED_BY(mutex_);  ///< numbers unlike the place
    std::unordered_set<std::uint64_t> taken_ TIERFS_GUARDED_BY(mutex_);         ///< the numbers of these
    std::uint64_t next_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::s3
