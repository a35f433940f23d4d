// Recent failures: what the origin has just kept a reader waiting for in vain.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

#include "config/base/result.hpp"
#include "tiering/values/unit.hpp"

namespace tierfs {

/// Blocks whose fetch failed a moment ago, after it had taken long. The kernel sends a read that failed as readahead once
/// more, for its reader: without this he would wait for origin.deadline twice. Failures that came fast are not kept: asking
/// again costs little, and may help. Not thread-safe: belongs to the lock of a FlightTable::Shard.
class RecentFailures {
  public:
    using Clock = std::chrono::steady_clock;
    static constexpr std::chrono::milliseconds kLong{
        500};  ///< a fetch that took so long is not repeated at once
    static constexpr std::chrono::milliseconds kMoment{250};  ///< so long it is not

    /// Of a fetch that was sent at `sent` and failed at `now`.
    static bool took_long(Clock::time_point sent, Clock::time_point now) { return now - sent >= kLong; }
    void add(const UnitKey& key, BlockMask blocks, const Error& error, Clock::time_point now);
    /// The error of any of the blocks, while the moment lasts.
    [[nodiscard]] std::optional<Error> find(const UnitKey& key, BlockMask blocks,
                                            Clock::time_point now) const;
    [[nodiscard]] bool empty() const { return failures_.empty(); }

  private:
    static constexpr std::size_t kMost = 64;  ///< the oldest goes: its reader has asked again by then
    struct Failure {
        UnitKey key;
        BlockMask blocks = 0;
        Error error;
        Clock::time_point until;
    };

    std::deque<Failure> failures_;  ///< the oldest first
};

}  // namespace tierfs
