// Sees to it that no request stays without an answer, and says what holds those up that take too long.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "config/base/mutex.hpp"
#include "fs/session/session.hpp"

namespace tierfs {

struct WatchdogOptions {
    /// A request that is older is reported, and answered with ETIMEDOUT unless it takes its time.
    std::chrono::milliseconds limit{31000};
    std::chrono::milliseconds tick{250};
    std::chrono::milliseconds between_stacks{60000};  ///< stacks are taken at most so often
    std::function<void(const std::string&)> say;      ///< a line of the log; empty: log::warning
};

/// Counts since the start, but for under_way and oldest_s.
struct RequestStats {
    std::uint64_t under_way = 0;      ///< the kernel waits for them now
    double oldest_s = 0;              ///< age of the oldest of these
    std::uint64_t over_deadline = 0;  ///< reported
    std::uint64_t timed_out = 0;      ///< answered by the watchdog
    std::uint64_t interrupted = 0;    ///< ended since who waited was killed
};

/// A thread that looks at all requests of a session a few times a second.
///
/// Whatever the floors below do (a thread of a directory's origin may hang in the kernel for good), who
/// waits gets ETIMEDOUT; what comes later is dropped. A listing of a huge directory may take longer than one
/// operation on the origin: it is reported but left to its end, since each of its pages has a deadline. So is
/// everything where the session waits for ever.
///
/// A reader that is killed while its request is under way would otherwise stay until that is answered: the
/// kernel sends FUSE_INTERRUPT and then waits without an end. It sends that for any signal, once only, and
/// not at all for direct I/O. So each request that was interrupted, or is older than a second, is watched
/// until its thread has SIGKILL pending (see /proc/TID/status); a signal that has a handler must not make
/// read(2) on a file fail. Where the session waits for ever, one that is closing its files after SIGKILL is
/// let go too: what it has written is on its way, and nobody is left to be told.
///
/// Thread-safe. The session must outlive it.
class Watchdog {
  public:
    Watchdog(Session& session, WatchdogOptions options);
    ~Watchdog() { stop(); }
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;

    [[nodiscard]] RequestStats stats();

    /// Answers all that is under way, at the end of the mount.
    void answer_all(int code);

    void stop();

  private:
    using Clock = RequestInfo::Clock;
    void run();
    void look(Clock::time_point now);
    void report(const std::vector<RequestTable::Seen>& late, Clock::time_point now);
    void report_busy_threads(Clock::time_point now);
    void say_stacks(Clock::time_point now);
    void end_the_killed(Clock::time_point now);
    void answer(const std::vector<RequestTable::Seen>& taken, int code);
    void say(const std::string& text) const;

    Session& session_;
    const WatchdogOptions options_;
    std::atomic<std::uint64_t> over_deadline_{0}, timed_out_{0}, interrupted_{0};
    // The thread's own.
    Clock::time_point next_stacks_{};
    std::vector<std::uint64_t> reported_busy_;

    Mutex mutex_;
    std::condition_variable wake_;
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    std::thread thread_;
};

}  // namespace tierfs
