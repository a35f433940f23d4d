// Turns at changing the names of one directory. Internal to fs/metadata.
#pragma once

#include <condition_variable>
#include <unordered_set>

#include "config/base/mutex.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {

/// Turns at changing a directory's names: one job at a time reads, decides and commits, so that no two give
/// the same name two nodes. Not a lock that readers meet; held for index writes only, never while the origin
/// is asked. Thread-safe.
class Turns {
  public:
    /// Waits for a directory's turn and gives it back at the end of the scope.
    class Turn {
      public:
        Turn(Turns& turns, NodeId directory) : turns_(turns), directory_(directory) {
            turns_.take(directory);
        }
        ~Turn() { turns_.give(directory_); }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Turns& turns_;
        NodeId directory_;
    };

  private:
    void take(NodeId directory);
    void give(NodeId directory);

    Mutex mutex_;
    std::condition_variable given_;
    std::unordered_set<NodeId> taken_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
