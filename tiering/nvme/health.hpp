// How well the device does: normal, unstable, down. Only tiering/nvme may include it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include "config/mutex.hpp"

namespace tierfs {

/// State machine of one device. A failed write makes it unstable: nothing is written for `kPause`, then the
/// next write is the probe; a good write makes it normal again. `kLimit` errors of reads and writes together
/// within a minute, or as many failed writes without a good one between, take it down: no writes any more
/// until the tier is opened again; and no reads either when reads are among the errors. Thread-safe.
class Health {
  public:
    using Clock = std::chrono::steady_clock;
    enum class State : std::uint8_t { normal, unstable, down };
    static constexpr std::chrono::seconds kPause{10};
    static constexpr std::chrono::seconds kWindow{60};
    static constexpr unsigned kLimit = 10;

    explicit Health(std::function<Clock::time_point()> now) : now_(std::move(now)) {}

    /// The state changed by this call, for the log.
    bool write_failed();
    bool read_failed();
    bool write_succeeded();

    [[nodiscard]] bool may_write() const;
    [[nodiscard]] bool may_read() const { return !reads_off_.load(std::memory_order_relaxed); }
    [[nodiscard]] State state() const { return state_.load(std::memory_order_relaxed); }
    [[nodiscard]] const char* state_name() const;

  private:
    bool count_error(bool write) TIERFS_REQUIRES(mutex_);

    const std::function<Clock::time_point()> now_;
    std::atomic<State> state_ = State::normal;
    std::atomic<bool> reads_off_ = false;
    mutable Mutex mutex_;
    std::deque<Clock::time_point> errors_ TIERFS_GUARDED_BY(mutex_);
    unsigned read_errors_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< since the last time the window was empty
    unsigned writes_failed_in_row_ TIERFS_GUARDED_BY(mutex_) = 0;
    Clock::time_point pause_until_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
