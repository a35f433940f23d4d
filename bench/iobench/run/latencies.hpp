// Percentiles of any number of latencies in little memory.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tierfs::iobench {

/// Counts nanoseconds in buckets: one each below 256, then 128 to each power of two, so that a quantile is at
/// most 0.4 % away from a latency that was measured. 64 KiB; all zero bytes is the empty state, so that it
/// may lie in Shared memory, one for each worker. Not thread-safe.
class Latencies {
  public:
    void add(std::uint64_t ns) { ++counts_[bucket_of(ns)]; }

    void add(const Latencies& other) {
        for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    }

    [[nodiscard]] std::uint64_t count() const {
        std::uint64_t sum = 0;
        for (const std::uint64_t count : counts_) sum += count;
        return sum;
    }

    /// Nanoseconds that the share `p` (0 <= p <= 1) of the latencies does not exceed (the nearest rank); 0 of
    /// nothing.
    [[nodiscard]] double quantile(double p) const {
        const std::uint64_t all = count();
        const auto rank = static_cast<std::uint64_t>(std::ceil(p * static_cast<double>(all)));
        std::uint64_t seen = 0;
        for (std::size_t i = 0; i < counts_.size(); ++i) {
            seen += counts_[i];
            if (seen != 0 && seen >= rank) return middle_of(i);
        }
        return 0;
    }

  private:
    static constexpr unsigned kBits = 7;  // 2^7 buckets to each power of two
    static constexpr std::uint64_t kStep = std::uint64_t{1} << kBits;

    static std::size_t bucket_of(std::uint64_t ns) {
        if (ns < 2 * kStep) return static_cast<std::size_t>(ns);
        const auto shift = static_cast<unsigned>(std::bit_width(ns)) - kBits - 1;
        return static_cast<std::size_t>(shift * kStep + (ns >> shift));
    }

    static double middle_of(std::size_t bucket) {
        if (bucket < 2 * kStep) return static_cast<double>(bucket);
        const std::uint64_t shift = bucket / kStep - 1;
        const std::uint64_t least = (bucket - shift * kStep) << shift;
        return static_cast<double>(least) + static_cast<double>((std::uint64_t{1} << shift) - 1) / 2;
    }

    std::array<std::uint64_t, (64 - kBits + 1) * kStep> counts_{};
};

}  // namespace tierfs::iobench
