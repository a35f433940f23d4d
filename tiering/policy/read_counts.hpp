// Counts and times of reads of objects, for rules that ask for them.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "backends/origin/object.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// Follows the kMost objects read last, some 10 MiB. Thread-safe. Times are passed in.
class ReadCounts {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kMost = 65536;

    struct Uses {
        std::uint64_t reads = 0;  ///< also the one under way
        Clock::duration idle{0};  ///< before that one; since `start` when there was none before
    };

    explicit ReadCounts(Clock::time_point start) : start_(start) {}

    /// A program reads from its beginning. Reads further on belong to that.
    void began(const ContentId& id, Clock::time_point now) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] Uses uses(const ContentId& id, Clock::time_point now) const TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        ContentId id;
        std::uint64_t reads = 0;
        Clock::duration idle{0};
        Clock::time_point last;
    };

    const Clock::time_point start_;
    mutable Mutex mutex_;
    std::list<Entry> entries_ TIERFS_GUARDED_BY(mutex_);  ///< the last read first
    std::unordered_map<ContentId, std::list<Entry>::iterator> places_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
