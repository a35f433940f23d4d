// Restarts of a daemon that died: how often, and how soon.
#pragma once

#include <chrono>
#include <deque>
#include <optional>

namespace tierfs {

/// At most `limit` replacements within any minute: one that dies for the same cause each time would go on for
/// good, and its readers would wait for nothing. The first comes at once; after one that did not come to
/// serve the next waits longer, up to 4 s: a device or a lock may come free. Not thread-safe.
class Restarts {
  public:
    using Clock = std::chrono::steady_clock;

    explicit Restarts(unsigned limit) : limit_(limit) {}

    /// A daemon died: how long to wait before the next is started. Nothing: there were too many.
    std::optional<Clock::duration> next(Clock::time_point now) {
        while (!times_.empty() && now - times_.front() >= std::chrono::minutes(1)) times_.pop_front();
        if (times_.size() >= limit_) return std::nullopt;
        times_.push_back(now);
        const unsigned failures = unserved_++;
        if (failures == 0) return Clock::duration::zero();
        return std::chrono::milliseconds(250 << (failures < 5 ? failures - 1 : 4));
    }

    /// Replacements within the last minute, as of the last one.
    [[nodiscard]] std::size_t recent() const { return times_.size(); }

    /// The new daemon serves.
    void served() { unserved_ = 0; }

  private:
    unsigned limit_;
    unsigned unserved_ = 0;  ///< replacements since one came to serve
    std::deque<Clock::time_point> times_;
};

}  // namespace tierfs
