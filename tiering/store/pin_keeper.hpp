// Keeps what is pinned by path in the tiers: after a start, after changes, and from time to time.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "backends/origin/origin.hpp"
#include "tiering/policy/pins.hpp"
#include "tiering/store/store.hpp"
#include "tiering/store/tree_job.hpp"

namespace tierfs {

/// Brings each file to where it stays (Store::pin). `store` must outlive it.
TreeJob::Action pinning(Store& store);

/// Rounds (Store::begin_pin_round): lists what is pinned, claims what the tiers hold of it, lets the rest go,
/// and then brings what is missing. Objects that changed at the origin are found that way: the new version is
/// brought, the old one let go. While the origin cannot list a path the round is not ended, so that nothing
/// that may be pinned goes.
///
/// `tick` and `stop` are for one thread, `look_again` for any. Never blocks for the origin, but for `stop`,
/// which waits for its listing under way. All three must outlive it.
class PinKeeper {
  public:
    using Clock = std::chrono::steady_clock;
    /// A round without a reason, for what changed at the origin.
    static constexpr std::chrono::hours kEvery{1};
    /// After one in which something could not be listed or brought; doubled up to kEvery while files fail.
    static constexpr std::chrono::seconds kRetry{30};

    PinKeeper(Origin& origin, Store& store, Pins& pins) : origin_(origin), store_(store), pins_(pins) {}

    /// To be called about once a second.
    void tick(Clock::time_point now);
    /// Pins were taken away: what is not pinned any more is to be let go.
    void look_again() { wanted_ = true; }
    void stop() { job_.reset(); }
    /// Nothing is wanted or under way; for tests.
    [[nodiscard]] bool idle() const { return !wanted_ && phase_ == Phase::idle; }

  private:
    enum class Phase : std::uint8_t { idle, claiming, bringing };

    void begin(Clock::time_point now);
    void start_job(Phase phase);
    void feed();
    void claimed(const TreeJob::Progress& progress, Clock::time_point now);

    Origin& origin_;
    Store& store_;
    Pins& pins_;
    std::atomic<bool> wanted_{true};
    Phase phase_ = Phase::idle;
    std::unique_ptr<TreeJob> job_;
    std::vector<std::string> paths_;  ///< of the job; those from next_ on are not handed over yet
    std::size_t next_ = 0;
    Clock::time_point not_before_{};
    std::chrono::seconds patience_{kRetry};  ///< until what could not be brought is tried again
    Clock::time_point again_ = Clock::time_point::max();
};

}  // namespace tierfs
