// The queue for data memory, in order.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "config/base/mutex.hpp"
#include "tiering/fetch/read_operation.hpp"
#include "tiering/ram/arena.hpp"

namespace tierfs {

/// Reads that found the arena full wait here, first come first served, and hold nothing while they wait:
/// whoever holds memory waits only for requests already sent, so the queue always moves.
///
/// Owns one thread, which tries the head again whenever memory comes back and answers reads that waited
/// longer than the deadline. Thread-safe. `memory_freed` may be called under any lock.
class ReadAdmission final : public FreeListener {
  public:
    /// Starts the operation, or returns false when memory is still short.
    using Start = std::function<bool(const ReadOperationPtr&)>;
    using Expire = std::function<void(const ReadOperationPtr&)>;

    explicit ReadAdmission(std::chrono::milliseconds deadline);
    ~ReadAdmission() override;

    /// Before the first enqueue. The functions are called on the thread, one at a time, without a lock.
    void start(Start start, Expire expire);

    /// Somebody waits: new reads that need memory have to queue up behind.
    [[nodiscard]] bool busy() const { return waiting_.load() > 0; }
    [[nodiscard]] std::uint32_t waiting() const { return waiting_.load(); }

    /// False after stop().
    bool enqueue(const ReadOperationPtr& operation) TIERFS_EXCLUDES(mutex_);

    /// Ends the thread; returns who still waited. Idempotent.
    std::vector<ReadOperationPtr> stop() TIERFS_EXCLUDES(mutex_);

    void memory_freed() noexcept override TIERFS_EXCLUDES(mutex_);

  private:
    using Clock = std::chrono::steady_clock;
    struct Waiting {
        ReadOperationPtr operation;
        Clock::time_point deadline;
    };

    void run() TIERFS_EXCLUDES(mutex_);

    const std::chrono::milliseconds deadline_;
    Start start_;
    Expire expire_;
    std::atomic<std::uint32_t> waiting_{0};

    Mutex mutex_;
    std::condition_variable changed_;
    std::deque<Waiting> queue_ TIERFS_GUARDED_BY(mutex_);
    bool freed_ TIERFS_GUARDED_BY(mutex_) = false;  ///< since the head was last tried
    bool stopped_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace tierfs
