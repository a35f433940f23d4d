// Latencies of late requests, and the limit from which on one counts as slow.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "backends/http/request.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::http {

/// Times to the first byte of the body, in a histogram with eight steps to the doubling, whose counts are
/// halved every kWindow samples: old times fade. Thread-safe.
class RecentLatencies {
  public:
    /// A quarter of the window must be known before anything is called slow.
    static constexpr unsigned kWindow = 256;
    static constexpr double kQuantile = 0.95;

    void add(Clock::duration time) TIERFS_EXCLUDES(mutex_);

    /// An upper bound of the quantile, at most an eighth too high; empty while too little is known.
    [[nodiscard]] std::optional<Clock::duration> high_quantile() TIERFS_EXCLUDES(mutex_);

  private:
    static constexpr unsigned kSteps = 8;       ///< of a doubling
    static constexpr unsigned kDoublings = 24;  ///< from 64 us on: to some 18 minutes
    void compute() TIERFS_REQUIRES(mutex_);

    Mutex mutex_;
    std::array<std::uint32_t, kSteps * kDoublings> counts_ TIERFS_GUARDED_BY(mutex_){};
    unsigned total_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned since_halved_ TIERFS_GUARDED_BY(mutex_) = 0;
    unsigned since_computed_ TIERFS_GUARDED_BY(mutex_) = 0;
    std::optional<Clock::duration> quantile_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::http
