// Handles by which the server knows the files that were seen.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <unordered_map>

#include "backends/nfs/messages.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::nfs {

/// Path to handle, within a limit of bytes: what was not asked for goes, in two generations instead of one
/// list, so that a hit costs no more than a look. A handle may be out of date in every way: who uses it
/// compares what it brings (files), or asks how old it is (directories). Thread-safe.
class HandleCache {
  public:
    using Clock = std::chrono::steady_clock;
    struct Known {
        Handle handle;
        Clock::time_point since;
    };

    explicit HandleCache(std::size_t most_bytes) : most_(most_bytes) {}

    void put(const std::string& path, const Handle& handle, Clock::time_point now = Clock::now());
    std::optional<Known> find(const std::string& path);
    void drop(const std::string& path);

    /// Bytes that are taken, about.
    [[nodiscard]] std::size_t bytes() const;

  private:
    using Generation = std::unordered_map<std::string, Known>;
    void insert(const std::string& path, Known known) TIERFS_REQUIRES(mutex_);

    const std::size_t most_;
    mutable Mutex mutex_;
    Generation young_ TIERFS_GUARDED_BY(mutex_), old_ TIERFS_GUARDED_BY(mutex_);
    std::size_t young_bytes_ TIERFS_GUARDED_BY(mutex_) = 0, old_bytes_ TIERFS_GUARDED_BY(mutex_) = 0;
};

}  // namespace tierfs::nfs
