// A histogram of latencies, by powers of two.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "config/base/striped.hpp"

namespace tierfs {

/// Counts by latency, and their sum. Plain value; microseconds.
struct LatencyStats {
    static constexpr std::size_t kBuckets =
        28;  ///< up to 1, 2, 4 us ... 67 s; the last: all that took longer
    std::array<std::uint64_t, kBuckets> counts{};
    std::uint64_t sum_us = 0;

    /// The largest latency of a bucket; of the last it means nothing.
    static constexpr std::uint64_t bound_us(std::size_t bucket) { return std::uint64_t{1} << bucket; }
    static constexpr std::size_t bucket_of(std::uint64_t us) {
        return us <= 1 ? 0 : std::min<std::size_t>(std::bit_width(us - 1), kBuckets - 1);
    }

    [[nodiscard]] std::uint64_t count() const {
        std::uint64_t all = 0;
        for (const auto one : counts) all += one;
        return all;
    }
    /// Below it are `share` (0 to 1) of all, interpolated within a bucket: off by less than a factor of two.
    /// 0 when nothing was counted.
    [[nodiscard]] double percentile_us(double share) const {
        const double wanted = share * static_cast<double>(count());
        double below = 0;
        for (std::size_t i = 0; i < kBuckets; ++i) {
            const auto here = static_cast<double>(counts.at(i));
            if (here > 0 && below + here >= wanted) {
                const double from = i == 0 ? 0 : static_cast<double>(bound_us(i - 1));
                return from + (static_cast<double>(bound_us(i)) - from) * (wanted - below) / here;
            }
            below += here;
        }
        return 0;
    }
};

/// Takes latencies of many threads, a few ns each. Thread-safe.
class LatencyHistogram {
  public:
    /// `weight`: how many this one stands for, where only some are timed.
    void add(std::chrono::nanoseconds latency, std::uint64_t weight = 1) {
        const auto us = static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0)) / 1000;
        Copy& copy = copies_.mine();
        copy.counts[LatencyStats::bucket_of(us)].fetch_add(weight, std::memory_order_relaxed);
        copy.sum_ns.fetch_add(static_cast<std::uint64_t>(std::max<std::int64_t>(latency.count(), 0)) * weight,
                              std::memory_order_relaxed);
    }

    [[nodiscard]] LatencyStats get() const {
        LatencyStats stats;
        for (std::size_t i = 0; i < LatencyStats::kBuckets; ++i) {
            stats.counts.at(i) = copies_.sum(
                [i](const Copy& copy) { return copy.counts.at(i).load(std::memory_order_relaxed); });
        }
        stats.sum_us =
            copies_.sum([](const Copy& copy) { return copy.sum_ns.load(std::memory_order_relaxed); }) / 1000;
        return stats;
    }

  private:
    struct Copy {
        std::array<std::atomic<std::uint64_t>, LatencyStats::kBuckets> counts{};
        std::atomic<std::uint64_t> sum_ns{0};
    };
    Striped<Copy> copies_;
};

}  // namespace tierfs
