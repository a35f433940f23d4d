// Threads that ask the origin, so that those of /dev/fuse need not. For fs/names and fs/live.
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <unordered_set>
#include <utility>
#include <vector>

#include "config/mutex.hpp"
#include "config/result.hpp"
#include "tiering/index/index.hpp"

namespace tierfs {

/// A first-come, first-served queue of jobs on a fixed number of threads. Thread-safe.
class WorkerPool {
  public:
    /// A job is called exactly once: with false on a worker, with true (canceled) by `stop`, or by `post`
    /// itself after a stop. A canceled job must only answer who waits for it.
    using Job = std::function<void(bool canceled)>;

    explicit WorkerPool(unsigned threads);
    ~WorkerPool() { stop(); }
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    void post(Job job);

    /// Waits for running jobs, cancels waiting ones. Idempotent; not to be called by a job.
    void stop();

  private:
    void run();

    Mutex mutex_;
    std::condition_variable work_;
    std::deque<Job> jobs_ TIERFS_GUARDED_BY(mutex_);
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    Mutex stop_mutex_;  ///< one caller of stop at a time
    std::vector<std::thread> threads_ TIERFS_GUARDED_BY(stop_mutex_);
};

/// How long a question may wait for a worker: as long as the origin may take to answer it. The origin's own
/// clock runs only once a worker asks, so while it is silent, whoever waits in the queue would wait for those
/// before him too. Times are nanoseconds of a clock that only goes forward. Immutable.
class Patience {
  public:
    Patience(std::chrono::milliseconds limit, std::function<std::int64_t()> clock)
        : limit_(limit), clock_(std::move(clock)) {}

    [[nodiscard]] std::int64_t now() const { return clock_(); }
    [[nodiscard]] bool is_over(std::int64_t asked) const {
        return std::chrono::nanoseconds(clock_() - asked) > limit_;
    }
    /// What whoever waited that long is told.
    [[nodiscard]] static Error error() {
        return {ETIMEDOUT, "too many questions wait for the origin, which does not answer in time"};
    }

  private:
    std::chrono::milliseconds limit_;
    std::function<std::int64_t()> clock_;
};

/// Turns at changing a directory's names: one job at a time reads, decides and commits, so that no two give
/// the same name two nodes. Not a lock that readers meet; held for index writes only, never while the origin
/// is asked. Thread-safe.
class Turns {
  public:
    /// Waits for a directory's turn and gives it back at the end of the scope.
    class Turn {
      public:
        Turn(Turns& turns, NodeId directory) : turns_(turns), directory_(directory) {
            turns_.take(directory);
        }
        ~Turn() { turns_.give(directory_); }
        Turn(const Turn&) = delete;
        Turn& operator=(const Turn&) = delete;

      private:
        Turns& turns_;
        NodeId directory_;
    };

  private:
    void take(NodeId directory);
    void give(NodeId directory);

    Mutex mutex_;
    std::condition_variable given_;
    std::unordered_set<NodeId> taken_ TIERFS_GUARDED_BY(mutex_);
};

}  // namespace tierfs
