// Threads that wait, so that those of /dev/fuse need not: a queue of jobs on as many threads as there are jobs.
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <optional>
#include <thread>
#include <utility>

#include "config/base/mutex.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// A first-come, first-served queue of jobs that wait for something. `least` threads are there from the start; another
/// one comes, up to `most`, whenever a job would have to wait for the end of others, and goes when it has had nothing
/// to do for `idle`. Thread-safe.
class WorkerPool {
  public:
    static constexpr std::chrono::milliseconds kIdle{10000};

    /// A job is called exactly once: with false on a worker, with true (canceled) by `stop`, or by `post`
    /// itself after a stop. A canceled job must only answer who waits for it.
    using Job = std::function<void(bool canceled)>;

    /// `most` 0: as many as `least`.
    explicit WorkerPool(unsigned least, unsigned most = 0, std::chrono::milliseconds idle = kIdle);
    ~WorkerPool() { stop(); }
    WorkerPool(const WorkerPool&) = delete;
    WorkerPool& operator=(const WorkerPool&) = delete;

    void post(Job job);

    /// Waits for running jobs, cancels waiting ones. Idempotent; not to be called by a job.
    void stop();

    [[nodiscard]] unsigned threads();

  private:
    using Threads = std::list<std::thread>;
    void run(Threads::iterator self);
    /// The next job; none: the thread is to end.
    std::optional<Job> next(Threads::iterator self);
    void add_thread() TIERFS_REQUIRES(mutex_);

    const unsigned least_, most_;
    const std::chrono::milliseconds idle_for_;
    Mutex mutex_;
    std::condition_variable work_;
    std::deque<Job> jobs_ TIERFS_GUARDED_BY(mutex_);
    std::size_t idle_ TIERFS_GUARDED_BY(mutex_) = 0;
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    Threads threads_ TIERFS_GUARDED_BY(mutex_);
    Threads ending_ TIERFS_GUARDED_BY(mutex_);  ///< they hold no lock any more, and are to be joined
    Mutex stop_mutex_;                          ///< one caller of stop at a time
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

}  // namespace tierfs
