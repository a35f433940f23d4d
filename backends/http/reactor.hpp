// One thread that drives many transfers and timers through a curl_multi handle. Internal to backends/http.
#pragma once

#include <atomic>
#include <map>
#include <optional>
#include <thread>
#include <unordered_map>

#include "backends/http/socket_events.hpp"
#include "backends/http/transfer.hpp"
#include "config/base/mutex.hpp"

namespace tierfs::http {

/// What a reactor asks its engine. Called on the reactor's thread without a lock held.
class Dispatcher {
  public:
    virtual ~Dispatcher() = default;
    /// A transfer has ended: which may start in its place, on this reactor?
    virtual std::vector<TransferPtr> ended(const Transfer& transfer) = 0;
    /// Transfers whose deadline passed in the queue.
    virtual std::vector<TransferPtr> overdue(Clock::time_point now) = 0;
    /// Whether overdue() must be asked from time to time.
    [[nodiscard]] virtual bool has_waiting() const = 0;
};

/// Thread-safe: post, post_timer, wake, stop. Throws std::runtime_error where libcurl cannot be set up.
class Reactor {
  public:
    /// Called with true when the reactor stops before the timer is due.
    using Timer = std::function<void(bool cancelled)>;

    Reactor(Dispatcher& dispatcher, WireOptions options, unsigned idle_connections);
    ~Reactor();
    Reactor(const Reactor&) = delete;
    Reactor& operator=(const Reactor&) = delete;

    /// Gives the transfer back when the reactor has stopped.
    [[nodiscard]] TransferPtr post(TransferPtr transfer) TIERFS_EXCLUDES(mutex_);

    /// False when the reactor has stopped; then the timer was not taken and is not called.
    [[nodiscard]] bool post_timer(Clock::time_point when, Timer& timer) TIERFS_EXCLUDES(mutex_);

    void wake();

    /// Cancels everything, calls all completions and timers, ends the thread. Not from the reactor's own
    /// thread.
    void stop() TIERFS_EXCLUDES(mutex_);

  private:
    void run();
    bool take_inbox() TIERFS_EXCLUDES(mutex_);
    void start(TransferPtr transfer);
    void reap();
    void end(Transfer* transfer);
    void cut_overdue(Clock::time_point now);
    void run_timers(Clock::time_point now);
    [[nodiscard]] std::chrono::milliseconds longest_wait(Clock::time_point now) TIERFS_EXCLUDES(mutex_);
    void cancel_all() TIERFS_EXCLUDES(mutex_);
    void* take_easy();
    void recycle_easy(void* easy);

    Dispatcher& dispatcher_;
    const WireOptions options_;
    void* multi_ = nullptr;
    std::optional<SocketEvents> events_;

    Mutex mutex_;
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    std::vector<TransferPtr> inbox_ TIERFS_GUARDED_BY(mutex_);
    std::vector<std::pair<Clock::time_point, Timer>> new_timers_ TIERFS_GUARDED_BY(mutex_);

    // The thread's own.
    std::unordered_map<Transfer*, TransferPtr> active_;
    std::multimap<Clock::time_point, Timer> timers_;
    std::vector<void*> idle_easy_;
    std::vector<TransferPtr>
        ready_;  ///< to be started next; a list, since starting within an end would recurse
    Clock::time_point next_scan_{};

    std::atomic<std::thread::id> id_;
    std::thread thread_;
};

}  // namespace tierfs::http
