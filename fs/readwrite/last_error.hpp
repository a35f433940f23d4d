// The failure that a mount met last.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "config/base/mutex.hpp"

namespace tierfs {

/// What went wrong last on a mount, for `tierfs status`. Thread-safe.
class LastError {
  public:
    struct Told {
        std::uint64_t count = 0;  ///< of all since the start
        std::string text;         ///< of the last one; empty: none
        double age_s = 0;
    };
    void set(std::string text) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] Told get() TIERFS_EXCLUDES(mutex_);

  private:
    Mutex mutex_;
    std::uint64_t count_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::string text_ TIERFS_GUARDED_BY(mutex_);
    std::chrono::steady_clock::time_point at_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
