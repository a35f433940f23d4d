// A watch over the reads of a device: do they come back, and how fast? Internal to tiering/nvme.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace tierfs {

/// Counts reads under way and their time. `begin` and `end` are thread-safe and cost some atomics; `look` is
/// for one thread, about once a second.
///
/// Slow means: in `kWindows` looks in a row, each with `kLeast` reads or more, reads took on average
/// `kFactor` times as long as usual, and more than `kFloor`: below that a device still beats most origins.
/// Usual is a moving average over looks at times that were not slow. A read counts as one unit of time for
/// each 256 KiB, begun ones too.
class ReadWatch {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::seconds kStalled{2};
    static constexpr std::chrono::seconds kDead{30};
    static constexpr std::chrono::milliseconds kHesitates{500};
    static constexpr std::chrono::milliseconds kFloor{50};
    static constexpr unsigned kFactor = 20, kWindows = 3, kLeast = 4;
    /// While a device hesitates or is unstable, no more than so many readers wait for it at a time.
    static constexpr unsigned kFewReaders = 2;

    /// False: it is not to be read now, since `few` readers are all that may wait and as many do, or since
    /// those that wait have for so long that it would take all readers in.
    bool begin(Clock::time_point now, bool few);
    void end(Clock::time_point began, Clock::time_point now, std::uint64_t bytes);

    struct Look {
        std::chrono::milliseconds stalled{0};  ///< for how long no read has come back that should
        std::optional<std::string> slow;       ///< in words, with figures
    };
    Look look(Clock::time_point now);

  private:
    /// How many reads are under way, and the last time that one came back or began when none was: one word,
    /// so that nobody sees a first reader with the time of another one.
    struct Waiting {
        std::uint64_t readers = 0, progress_ms = 0;
        static Waiting of(std::uint64_t word) { return {word >> kTimeBits, word & kTimeMask}; }
        [[nodiscard]] std::uint64_t word() const { return readers << kTimeBits | (progress_ms & kTimeMask); }
        [[nodiscard]] std::chrono::milliseconds silent_for(Clock::time_point now) const;

      private:
        static constexpr unsigned kTimeBits = 48;
        static constexpr std::uint64_t kTimeMask = (std::uint64_t{1} << kTimeBits) - 1;
    };

    std::atomic<std::uint64_t> waiting_{0};  ///< a Waiting
    std::atomic<std::uint64_t> units_{0}, unit_ns_{0};
    std::uint64_t usual_ns_ = 0;
    unsigned slow_windows_ = 0;
};

}  // namespace tierfs
