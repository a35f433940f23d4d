// Sends a slow GET a second time and takes what comes first.
#pragma once

#include <array>
#include <atomic>
#include <memory>

#include "backends/http/engine.hpp"
#include "backends/http/latency.hpp"

namespace tierfs::http {

/// What may be spent on hedges: each request that could be hedged earns a share of one. Where hedges mostly
/// lose (it is this machine that is slow, not some of the server's answers) they earn less, down to kLeast of
/// it, which is enough to notice when they begin to win. Thread-safe.
class HedgeBudget {
  public:
    /// `percent` of the requests, over any time: what is not used is kept up to kBurst hedges only.
    explicit HedgeBudget(unsigned percent) : share_(percent / 100.0) {}

    void earned() TIERFS_EXCLUDES(mutex_);
    /// Takes one hedge, unless fewer than `spare` would be left.
    [[nodiscard]] bool take(double spare) TIERFS_EXCLUDES(mutex_);
    /// Of one that was taken: whether it was of use.
    void ended(bool won) TIERFS_EXCLUDES(mutex_);

    static constexpr double kBurst = 20;
    static constexpr double kLeast = 0.02;

  private:
    const double share_;
    Mutex mutex_;
    double tokens_ TIERFS_GUARDED_BY(mutex_) = 0;
    double wins_ TIERFS_GUARDED_BY(mutex_) = 1;  ///< of the last hedges, the share that won
};

struct HedgeStats {
    std::uint64_t sent = 0, won = 0;
};

/// Hedged requests (Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013): a GET whose body has not begun
/// after half as long again as 95 % of those of its size class took lately is sent once more, on another
/// connection. The first attempt whose body begins with status 200 or 206 gets Request::destination; the
/// other never writes a byte there, is ended, and its connection closed. So a hedge needs no memory of its
/// own. What has won and then stalls or breaks is the caller's to repeat. When one attempt fails the other
/// goes on, unless the failure is about the object (404 and its like); when both fail the caller is told
/// once.
///
/// Hedges are at most `percent` of the requests that pass here, fewer where they do not win, and there are
/// none while the server throttles, while requests wait for a connection, or before the usual time is known.
/// Bulk reads are hedged only out of a budget that demand does not need.
///
/// Thread-safe; completions as with Engine::send, which must outlive all requests. The requests under way
/// keep what they need alive, so this object may go before them.
class Hedger {
  public:
    Hedger(Engine& engine, unsigned percent);

    /// As Engine::send. What is no GET into a destination is passed on as it is.
    void send(Request request, Completion done);

    [[nodiscard]] HedgeStats stats() const;

    /// The shortest wait before a hedge: below it the timers of a loaded machine mean nothing.
    static constexpr std::chrono::milliseconds kShortestDelay{5};

  private:
    friend class Race;
    static constexpr std::array<std::size_t, 3> kSizeClasses{64U << 10, 1U << 20, ~std::size_t{0}};

    struct Shared {
        explicit Shared(unsigned percent) : budget(percent) {}
        HedgeBudget budget;
        std::array<RecentLatencies, kSizeClasses.size()> latencies;
        std::atomic<std::uint64_t> sent{0}, won{0};
    };

    Engine& engine_;
    const bool enabled_;
    const std::shared_ptr<Shared> shared_;
};

}  // namespace tierfs::http
