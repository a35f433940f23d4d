// The health of a device: normal, unstable, down. Internal to tiering/nvme.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>

#include "config/base/mutex.hpp"

namespace tierfs {

/// State machine of one device.
///
/// unstable: a failed write, and then nothing is written for `kPause`, the next write is the probe, and a
/// good one makes it normal; or `kUnstable` failed reads within a minute, reads or writes that do not come
/// back, or reads that are far slower than usual: then nothing is written until `recovered`.
///
/// down: `kLimit` errors of reads and writes together within a minute, or as many failed writes without a
/// good one between (a full file system does not count), or `give_up`. Nothing is written until `recovered`,
/// and nothing read either when reads are among the errors: such a device is closed and opened anew.
///
/// Who calls gets to know whether this changed the state, for the log. Thread-safe.
class Health {
  public:
    using Clock = std::chrono::steady_clock;
    enum class State : std::uint8_t { normal, unstable, down };
    static constexpr std::chrono::seconds kPause{10};
    static constexpr std::chrono::seconds kWindow{60};
    static constexpr unsigned kLimit = 10;
    static constexpr unsigned kUnstable = 5;

    explicit Health(std::function<Clock::time_point()> now) : now_(std::move(now)) {}

    bool write_failed(const std::string& reason, bool full);
    bool read_failed(const std::string& reason);
    bool write_succeeded();
    /// Not an error but as bad: it stalls, or is slow.
    bool degrade(const std::string& reason);
    bool give_up(const std::string& reason);
    /// Probes succeeded: all that was is forgotten.
    bool recovered();

    [[nodiscard]] bool may_write() const;
    /// Whether an unstable state ends by itself, and its pause is not over.
    [[nodiscard]] bool is_pausing() const;
    [[nodiscard]] bool may_read() const { return !reads_off_.load(std::memory_order_relaxed); }
    [[nodiscard]] State state() const { return state_.load(std::memory_order_relaxed); }
    [[nodiscard]] const char* state_name() const;
    [[nodiscard]] std::string reason() const;  ///< of what it is now; empty when normal

  private:
    bool count_error(const std::string& reason, bool write, bool counts) TIERFS_REQUIRES(mutex_);
    bool enter(State state, const std::string& reason) TIERFS_REQUIRES(mutex_);

    const std::function<Clock::time_point()> now_;
    std::atomic<State> state_ = State::normal;
    std::atomic<bool> reads_off_ = false;
    mutable Mutex mutex_;
    std::deque<Clock::time_point> errors_ TIERFS_GUARDED_BY(mutex_);
    unsigned read_errors_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< since the last time the window was empty
    unsigned writes_failed_in_row_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool until_recovered_ TIERFS_GUARDED_BY(mutex_) = false;
    Clock::time_point pause_until_ TIERFS_GUARDED_BY(mutex_);
    std::string reason_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
