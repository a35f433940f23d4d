// Locks on the paths of a bucket that are being changed at the moment.
#pragma once

#include <condition_variable>
#include <string>
#include <vector>

#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// Locks on paths, which are held while requests are under way: those who change a path, or the tree below
/// it, wait for those who change the same. Each holder ends at its requests' deadlines. Thread-safe.
class PathLocks {
  public:
    struct Path {
        std::string path;
        bool is_tree = false;  ///< and all that is below it
    };

    /// Waits until no path of these is held by others; all at once, so that two cannot wait for each other.
    class Held {
      public:
        Held(PathLocks& locks, std::vector<Path> paths);
        /// Does not wait. `is_held` false: others hold one, and this holds nothing.
        Held(PathLocks& locks, std::vector<Path> paths, bool& is_held);
        ~Held();
        Held(const Held&) = delete;
        Held& operator=(const Held&) = delete;

      private:
        PathLocks& locks_;
        const std::vector<Path> paths_;
    };

  private:
    static bool collide(const Path& one, const Path& other);
    bool is_free(const std::vector<Path>& paths) const TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    std::condition_variable freed_;
    std::vector<const std::vector<Path>*> held_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::s3
