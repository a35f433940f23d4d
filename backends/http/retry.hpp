// Rules of repeated attempts: whether one more is due, and how soon.
#pragma once

#include <optional>
#include <random>

#include "backends/http/request.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::http {

/// Whether the same request may be answered better next time: 429, 500, 502, 503, 504 and broken connections.
/// Certificates, oversized bodies and what is not HTTP stay as they are, but for what is not HTTP any more:
/// on a connection that was used before.
bool worth_repeating(const Response& response);

/// 429 and 503: the server asks for less.
bool is_throttling(int status);

/// Full jitter (Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog 2015): uniform in
/// [0, min(cap, base * 2^attempt)]; attempt counts from 0. `random` is uniform in [0, 1).
std::chrono::milliseconds backoff(unsigned attempt, double random);

/// Retry-After in seconds or as an HTTP date (RFC 9110, 10.2.3); `now` is the time of day. Empty: none, or
/// nonsense.
std::optional<std::chrono::milliseconds> retry_after(std::string_view value, std::time_t now);

/// An HTTP date in any of its three forms; empty when it is none.
std::optional<std::time_t> parse_http_date(std::string_view text);

/// Keeps repeats from multiplying the load on a server in trouble: each request earns a tenth of a repeat,
/// and a few a second are free. Who finds it empty waits for its turn instead of failing. Thread-safe.
class RetryBudget {
  public:
    void earned() TIERFS_EXCLUDES(mutex_);

    /// Takes one repeat; tells how long to wait for it. Given back with refund() when that is too long.
    std::chrono::milliseconds take(Clock::time_point now) TIERFS_EXCLUDES(mutex_);
    void refund() TIERFS_EXCLUDES(mutex_);

    static constexpr double kShare = 0.1, kPerSecond = 5, kBurst = 64;

  private:
    Mutex mutex_;
    double tokens_ TIERFS_GUARDED_BY(mutex_) = kBurst;
    std::optional<Clock::time_point> filled_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs::http
