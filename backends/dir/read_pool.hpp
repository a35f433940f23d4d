// Threads that run blocking reads in order of priority.
#pragma once

#include <array>
#include <condition_variable>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "backends/origin.hpp"
#include "config/mutex.hpp"

namespace tierfs {

/// Runs `serve` for each request on one of a fixed number of threads, demand before prefetch before fill,
/// first come first served within each. Thread-safe. `serve` must call the request's `done`.
class ReadPool {
  public:
    ReadPool(unsigned threads, std::function<void(OriginRead&)> serve);
    ~ReadPool();

    /// After stop(): the request fails with ECANCELED at once.
    void submit(OriginRead request) TIERFS_EXCLUDES(mutex_);

    /// Fails what waits with ECANCELED, waits for what runs. Idempotent; not to be called from `serve`.
    void stop() TIERFS_EXCLUDES(mutex_);

  private:
    void run() TIERFS_EXCLUDES(mutex_);
    bool next(OriginRead& request) TIERFS_EXCLUDES(mutex_);

    const std::function<void(OriginRead&)> serve_;
    Mutex mutex_;
    std::condition_variable wake_;
    std::array<std::deque<OriginRead>, 3> waiting_ TIERFS_GUARDED_BY(mutex_);
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    std::vector<std::thread> threads_;  // touched by the constructor and stop's first caller only
};

}  // namespace tierfs
