// Marks that tell the objects apart which come to one place after another.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>

#include "backends/s3/readwrite/inode_numbers.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// With the inode number, a mark is what the kernel takes for one file (PosixIdentity::born_ns): it stays while
/// this mount changes the file, and is another one when another host has put its object there. So much is
/// remembered for kMost places; what is forgotten bears a mark that follows from its version, as on every mount
/// that meets it first. Thread-safe.
class Births {
  public:
    static constexpr std::size_t kMost = 1U << 17;

    /// Of what is at a place, in this version.
    std::uint64_t at(Place place, std::string_view version) TIERFS_EXCLUDES(mutex_);
    /// Of what is made now.
    std::uint64_t made() TIERFS_EXCLUDES(mutex_);
    /// This mount has made this version of what bears the mark.
    void changed(Place place, std::string_view version, std::uint64_t birth) TIERFS_EXCLUDES(mutex_);
    /// What was there is there no more: whatever comes bears a mark of its own, the same bytes too.
    void left(Place place) TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        std::uint64_t version = 0;  ///< its hash; 0: none that is there
        std::uint64_t birth = 0;
    };
    std::uint64_t next_locked() TIERFS_REQUIRES(mutex_);
    Entry& entry_locked(Place place) TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    std::unordered_map<Place, Entry> entries_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t made_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::s3
