// fcntl(2) and flock(2) on a writable mount whose origin has locks.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>

#include "config/base/mutex.hpp"
#include "config/base/worker_pool.hpp"
#include "fs/readwrite/file_locks.hpp"
#include "fs/readwrite/live_files.hpp"
#include "fs/session/request.hpp"

namespace tierfs {

/// Locks are the origin's (FileLocks), so that they hold between users of this mount and everybody else
/// there.
///
/// Who has to wait stands in a row with the others who wait for the file, and holds no thread. When somebody
/// of this mount lets go the row is tried from its head, whoever can get a lock gets it, and nobody else
/// comes in between. Of those who do not use this mount nobody tells: while somebody waits for them a thread
/// tries again, after 1 ms, then after twice as long each time, to half a second. As natively, a lock that
/// can be had is given also while others wait for one that excludes it: to let them go first could make
/// owners wait for each other for good. Deadlocks are not looked for (no EDEADLK).
///
/// What is done with the locks of one file is done one after the other, in the order asked, without a lock of
/// ours being held: whoever finds others at it leaves them his job. Thread-safe. `files` must outlive it.
class LiveLocks {
  public:
    /// `serves`: the origin has locks (PosixOrigin::has_locks); else nothing may be asked here. `record`: is told how many
    /// files have some; may be null.
    LiveLocks(LiveFiles& files, bool serves, LiveRecord* record = nullptr);
    ~LiveLocks() { stop(); }
    LiveLocks(const LiveLocks&) = delete;
    LiveLocks& operator=(const LiveLocks&) = delete;

    [[nodiscard]] bool serves() const { return serves_; }

    /// `waits`: for as long as somebody else has a lock that excludes it; else that is EAGAIN.
    /// `session`: where the kernel is told to forget pages.
    void set(RequestPtr request, fuse_session* session, const LiveNodePtr& node, LockAsker asker,
             const LockWish& wish, bool waits);
    void get(RequestPtr request, const LiveNodePtr& node, LockAsker asker, const FileLock& lock);
    /// A descriptor of the open file was closed by that owner. `done` is called once its locks are gone.
    void flushed(const LiveNodePtr& node, std::uint64_t owner, std::uint64_t handle,
                 std::function<void()> done);
    /// The open file is no more.
    void released(const LiveNodePtr& node, std::uint64_t handle);

    /// Who waits is answered with ENOTCONN, and so is who comes later. Locks stay until this is destroyed.
    /// False: a thread is held by the origin, or by the kernel, which waits for pages that somebody reads;
    /// this must not be destroyed then. Idempotent, and worth a second try once those have been answered.
    bool stop(std::chrono::milliseconds patience = std::chrono::hours(24));

  private:
    using Clock = FileLocks::Clock;
    struct Waiter {
        RequestPtr request;
        fuse_session* session = nullptr;
        LockAsker asker;
        LockWish wish;
        Clock::time_point until = Clock::time_point::max();  ///< then EAGAIN
    };
    /// Of one file. Whoever has its turn uses it.
    struct Row {
        explicit Row(LiveNodePtr node_) : node(std::move(node_)) {}
        const LiveNodePtr node;
        FileLocks locks;
        std::list<Waiter> waiters;
        Clock::duration pause{};  ///< until the row is tried again
    };
    using Job = std::function<void(Row&)>;
    /// `row` as long as there is something to remember of the file.
    struct Turns {
        std::unique_ptr<Row> row;
        std::deque<Job> jobs;
        bool is_taken = false;
        bool is_locked = false;  ///< or may be in a moment
        std::optional<Clock::time_point> due;
    };

    /// Does a job when it is the file's turn: at once on this thread, or later on that of whoever is at it.
    void post(const LiveNodePtr& node, Job job);
    void set_due(Turns& turns, std::optional<Clock::time_point> due) TIERFS_REQUIRES(mutex_);
    void count(Turns& turns, bool is_locked) TIERFS_REQUIRES(mutex_);
    /// When the row is to be tried again, at the latest.
    static Clock::time_point next_try(const Row& row);
    [[nodiscard]] bool is_stopping();
    /// Whether anything is to be remembered of the file.
    [[nodiscard]] bool is_known(const LiveNodePtr& node);
    void run();

    void try_first(Row& row, Waiter asks, bool waits);
    void wait(Row& row, Waiter asks);
    /// Tries those who wait, in their order.
    void look(Row& row);
    /// False: he has to wait on.
    bool try_again(Row& row, Waiter& waiter, bool& gave_way);
    void grant(Row& row, const Waiter& asks, const LockChange& change);
    /// Has the kernel forget what it has of the file, on another thread, and answers then.
    void forget_first(Row& row, const Waiter& asks, const LockChange& undoing, std::string version);
    /// False: nobody was told that he has the lock.
    bool forget_and_answer(const LiveNodePtr& node, const Waiter& asks, const std::string& version);
    void take_back(Row& row, const Waiter& asks, const LockChange& undoing);
    /// Of one file, once whoever is at it is done.
    void look_later(const LiveNodePtr& node);
    [[nodiscard]] bool is_forgetting(Clock::time_point end);

    LiveFiles& files_;
    const bool serves_;
    LiveRecord* const record_;
    Mutex mutex_;
    std::condition_variable wake_;
    std::condition_variable ended_;
    bool stopping_ TIERFS_GUARDED_BY(mutex_) = false;
    bool has_ended_ TIERFS_GUARDED_BY(mutex_) = false;   ///< the thread
    unsigned forgetting_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< how many wait for the kernel to forget
    std::unordered_map<const LiveNode*, Turns> turns_ TIERFS_GUARDED_BY(mutex_);
    std::uint64_t locked_ TIERFS_GUARDED_BY(mutex_) = 0;  ///< files of `turns_`
    /// When rows are to be tried again.
    std::set<std::pair<Clock::time_point, LiveNodePtr>> due_ TIERFS_GUARDED_BY(mutex_);
    std::unique_ptr<WorkerPool> forgetters_;  ///< they tell the kernel what to forget, as no handler may
    std::thread thread_;
};

}  // namespace tierfs
