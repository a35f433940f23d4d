// Threads that run blocking reads in order of priority.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "backends/origin/origin.hpp"
#include "config/base/mutex.hpp"

namespace tierfs {

/// Runs `serve` for each request on a thread of its own, demand before prefetch before fill,
/// first come first served within each. There are `least` threads from the start; while requests wait and most threads
/// are held by theirs, more come, up to `most`. Thread-safe. `serve` must call the request's `done`.
///
/// A thread may be held inside the kernel by a source that does not answer. What waits in the queue then
/// fails with ETIMEDOUT after `patience`, and at once while all threads have been held for that long. The
/// request that a held thread is busy with is not answered before the kernel lets go of its destination.
class ReadPool {
  public:
    /// `serve` must own what it uses: it may go on after this object has gone. `reachability` hears of a thread that is held
    /// for Reachability::kSilence, and of all that come back.
    ReadPool(unsigned least, unsigned most, std::chrono::milliseconds patience,
             std::function<void(OriginRead&)> serve, std::shared_ptr<Reachability> reachability = nullptr);
    ~ReadPool();

    /// After stop(): the request fails with ECANCELED at once.
    void submit(OriginRead request);

    /// Fails what waits with ECANCELED, waits a moment for what runs. Threads that are held then are left
    /// behind; the requests they are busy with are answered when they come back, if ever. Idempotent; not to
    /// be called from `serve`.
    void stop();

    /// After stop(): threads were left behind and have not come back.
    [[nodiscard]] bool is_held() const;

    static constexpr std::chrono::milliseconds kStopPatience{2000};

  private:
    using Clock = std::chrono::steady_clock;
    struct Waiting {
        OriginRead request;
        Clock::time_point deadline;
    };
    /// Outlives the object while a thread is held.
    struct Shared {
        std::function<void(OriginRead&)> serve;
        std::shared_ptr<Reachability> reachability;  ///< may be null
        Mutex mutex;
        std::condition_variable work, changed;  ///< for the readers; for the clock and for stop()
        std::array<std::deque<Waiting>, 3> waiting TIERFS_GUARDED_BY(mutex);
        std::vector<Clock::time_point> busy_since TIERFS_GUARDED_BY(mutex);  ///< one a thread; max(): idle
        unsigned alive TIERFS_GUARDED_BY(mutex) = 0;
        bool crowded TIERFS_GUARDED_BY(mutex) =
            false;  ///< more wait than threads are idle; the clock looks often
        bool stopped TIERFS_GUARDED_BY(mutex) = false;

        [[nodiscard]] std::size_t waiting_count() const TIERFS_REQUIRES(mutex);
        /// How many threads have been busy with one request for so long.
        [[nodiscard]] std::size_t held_for(std::chrono::milliseconds time) const TIERFS_REQUIRES(mutex);
    };

    static void run(const std::shared_ptr<Shared>& shared, std::size_t number);
    static bool next(Shared& shared, OriginRead& request, std::size_t number);
    static std::vector<OriginRead> take_overdue(Shared& shared, Clock::time_point now)
        TIERFS_REQUIRES(shared.mutex);
    void watch_deadlines();
    void start_thread() TIERFS_REQUIRES(shared_->mutex);
    void grow() TIERFS_REQUIRES(shared_->mutex);

    const unsigned most_;
    const std::chrono::milliseconds patience_;
    const std::shared_ptr<Shared> shared_;
    std::vector<std::thread> threads_ TIERFS_GUARDED_BY(shared_->mutex);
    std::thread clock_;  // touched by the constructor and stop's first caller only
};

}  // namespace tierfs
