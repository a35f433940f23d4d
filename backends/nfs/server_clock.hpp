// An NFS server's clock, as far as its answers tell it.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "config/base/time.hpp"

namespace tierfs::nfs {

/// The protocol asks nobody for the time, but each change of a file that an answer tells of had happened at the
/// server when the answer came: so far at least its clock was then, by this host's. Thread-safe.
class ServerClock {
  public:
    /// Times further ahead of this host are taken for nonsense that some file bears.
    static constexpr std::int64_t kFurthest = 3600 * kNsPerSecond;

    /// A time of change (not of modification, which users set) in an answer that has just come.
    void saw(std::int64_t changed_ns, std::int64_t now_ns = wall_clock_ns()) {
        const auto ahead = changed_ns - now_ns;
        if (ahead > kFurthest) return;
        auto known = ahead_ns_.load(std::memory_order_relaxed);
        while (ahead > known && !ahead_ns_.compare_exchange_weak(known, ahead, std::memory_order_relaxed)) {
        }
    }
    /// Nanoseconds since 1970 that the server's clock shows at least.
    [[nodiscard]] std::int64_t at_least(std::int64_t now_ns = wall_clock_ns()) const {
        return now_ns + ahead_ns_.load(std::memory_order_relaxed);
    }

  private:
    /// Until anything was seen: so far behind that nothing is old.
    std::atomic<std::int64_t> ahead_ns_{-(std::int64_t{1} << 61)};
};

}  // namespace tierfs::nfs
