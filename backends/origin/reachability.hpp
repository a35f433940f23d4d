// Reachability: whether the source of a mount answers, as those find it who ask it.
#pragma once

#include <atomic>
#include <chrono>
#include <string>

#include "config/base/mutex.hpp"

namespace tierfs {

/// Tells the log once when the source stops to answer, with the reason, and once when it answers again; each at most once in
/// kQuiet, so that a source that comes and goes does not fill the log. Thread-safe; each function may be called under any
/// lock but that of the log. One for each source; whoever asks the source shares it.
class Reachability {
  public:
    using Clock = std::chrono::steady_clock;
    enum class Failure : std::uint8_t {
        certain,  ///< nobody takes up the connection, or nothing came for long
        doubtful,  ///< a connection broke: the next one may serve. Several in a row, and nothing else for kDoubt, are certain
    };
    struct State {
        std::string why;  ///< empty: it answers, or was not asked
        std::chrono::duration<double> away{0};
    };
    static constexpr std::chrono::seconds kDoubt{2}, kQuiet{60};
    /// So long without an answer is a certain failure of an origin whose calls have no shorter limit.
    static constexpr std::chrono::seconds kSilence{5};

    /// An answer came, whatever it says.
    void answered() {
        if (is_troubled_.load(std::memory_order_relaxed)) recover();
    }
    void failed(const std::string& why, Failure failure) TIERFS_EXCLUDES(mutex_);
    [[nodiscard]] State state() const TIERFS_EXCLUDES(mutex_);
    /// Whether it is known not to answer; costs nothing while it does.
    [[nodiscard]] bool is_away() const {
        return is_troubled_.load(std::memory_order_relaxed) && !state().why.empty();
    }

  private:
    void recover() TIERFS_EXCLUDES(mutex_);

    std::atomic<bool> is_troubled_{false};  ///< something has failed since the last answer
    mutable Mutex mutex_;
    unsigned failures_ TIERFS_GUARDED_BY(mutex_) = 0;      ///< in a row
    Clock::time_point since_ TIERFS_GUARDED_BY(mutex_){};  ///< the first of them
    std::string why_ TIERFS_GUARDED_BY(mutex_);            ///< empty: it answers
    bool is_told_ TIERFS_GUARDED_BY(mutex_) = false;
    Clock::time_point last_told_ TIERFS_GUARDED_BY(mutex_) = Clock::time_point::min();
};

}  // namespace tierfs
