// Counts of keys that listings of a writable bucket could not show as files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>

#include "config/base/mutex.hpp"

namespace tierfs::s3 {

/// By directory, as it was listed last, and by reason: see ListPage::hidden. Thread-safe.
class HiddenKeys {
  public:
    using Counts = std::map<std::string, std::uint64_t>;
    /// Directories with such keys; of others beyond it nothing is counted.
    static constexpr std::size_t kMost = 1U << 16;

    void set(std::uint64_t directory, Counts counts) {
        const MutexLock lock(mutex_);
        if (counts.empty()) {
            counts_.erase(directory);
        } else if (counts_.size() < kMost || counts_.contains(directory)) {
            counts_[directory] = std::move(counts);
        }
    }
    [[nodiscard]] Counts sums() {
        Counts sums;
        const MutexLock lock(mutex_);
        for (const auto& [directory, counts] : counts_) {
            for (const auto& [reason, count] : counts) sums[reason] += count;
        }
        return sums;
    }

  private:
    Mutex mutex_;
    std::unordered_map<std::uint64_t, Counts> counts_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::s3
