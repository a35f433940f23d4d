// Objects that are read again soon: for promotion.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <list>
#include <unordered_map>

#include "config/base/mutex.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

/// Whether something was read `reads` times within a time. Follows the kMost things read last (some 6 MiB);
/// with one read it follows nothing. Thread-safe. Times are passed in.
class Repeats {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::size_t kMost = 32768;
    static constexpr unsigned kMostReads = 8;

    Repeats(unsigned reads, std::chrono::milliseconds within) : reads_(reads), within_(within) {}

    /// Counts a read; true: it is at least the last of so many.
    bool read(const UnitKey& key, Clock::time_point now) TIERFS_EXCLUDES(mutex_);

  private:
    struct Entry {
        UnitKey key;
        std::array<Clock::time_point, kMostReads> times;  ///< a ring of the last reads_ ones
        unsigned count = 0;
    };

    const unsigned reads_;
    const std::chrono::milliseconds within_;
    Mutex mutex_;
    std::list<Entry> entries_ TIERFS_GUARDED_BY(mutex_);  ///< the last read first
    std::unordered_map<UnitKey, std::list<Entry>::iterator> places_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
