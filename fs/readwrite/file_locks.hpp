// The locks that users of a writable mount have on one file.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "backends/origin/posix_locks.hpp"
#include "fs/readwrite/lock_ranges.hpp"

namespace tierfs {

/// Who asks for a lock.
struct LockAsker {
    /// As the kernel names it: of fcntl(2)'s locks a process's table of descriptors, or an open file
    /// description (F_OFD_SETLK): it does not say which.
    std::uint64_t owner = 0;
    std::uint64_t handle = 0;  ///< the open file it asks through, whose flock(2) it is
    bool can_write = false;    ///< that is open for writing
    pid_t pid = 0;
    PosixFilePtr file;
};

/// What is asked for: a range, or with `whole` flock(2), of which the kind alone counts.
struct LockWish {
    bool whole = false;
    FileLock lock;
};

/// What was before, to be taken back when nobody is there any more to hear of what came of it.
struct LockChange {
    std::vector<FileLock> before;
    PosixLocksPtr on;  ///< where it was set; null: nowhere
    /// Where nobody has set anything anew since, which alone may be taken back; null: nowhere.
    std::shared_ptr<LockRanges> left;
    /// Somebody else may get now what he could not have before.
    [[nodiscard]] bool gave_way() const;
};

/// Each owner has an open file description at the origin, and each open file with a flock(2) another one: the
/// origin's kernel then keeps them apart from each other and from everybody else, and lets go of all when the
/// daemon dies. An owner has one description only, so that it never stands in its own way: one that was
/// opened for reading is exchanged when an exclusive lock is asked for, which shared locks allow at any time.
///
/// What is remembered here says whose lock it is that others meet. Not thread-safe; calls ask the origin, but
/// none waits for a lock.
class FileLocks {
  public:
    using Clock = std::chrono::steady_clock;
    /// So long after close(2) has let go of a descriptor the kernel may yet tell that it was the last one.
    static constexpr std::chrono::milliseconds kClosing{1000};

    /// EAGAIN: somebody else has a lock that excludes it. Letting go succeeds for who has none.
    Result<LockChange> set(const LockAsker& asker, const LockWish& wish);
    /// Takes back a lock that set() gave, for who did not hear of it. What its owner has asked for meanwhile
    /// stays: of that he did hear.
    void undo(const LockAsker& asker, const LockWish& wish, const LockChange& change);
    /// fcntl(2), F_GETLK: a lock that excludes this one; kind none: there is none.
    Result<FileLock> in_the_way(const LockAsker& asker, const FileLock& lock);

    /// Whether an owner or open file of this mount has a lock that excludes it.
    [[nodiscard]] bool is_ours_in_the_way(const LockAsker& asker, const LockWish& wish) const;
    /// Whether all of these belong to open files that are being closed, perhaps: they may be gone in a
    /// moment.
    [[nodiscard]] bool is_leaving(const LockAsker& asker, const LockWish& wish, Clock::time_point now) const;

    /// A descriptor of the open file was closed by that owner, who loses its locks on the file (fcntl(2)).
    void flushed(std::uint64_t owner, std::uint64_t handle, Clock::time_point now);
    /// The open file is no more.
    void released(std::uint64_t handle);

    /// Whether anybody has a lock.
    [[nodiscard]] bool are_held() const;
    [[nodiscard]] bool empty() const { return owners_.empty() && wholes_.empty(); }

  private:
    struct Owner {
        LockRanges ranges;
        PosixLocksPtr on;
        bool can_write = false;
        pid_t pid = 0;
        /// The same by the open file through which it was asked for: the kernel gives the number of one that
        /// is no more to another one, perhaps before it tells.
        std::unordered_map<std::uint64_t, LockRanges> through;

        void set(std::uint64_t handle, const FileLock& lock);
        /// Lets go of what was asked for through that open file.
        void released(std::uint64_t handle);
    };
    struct Whole {
        FileLock::Kind kind = FileLock::Kind::none;
        PosixLocksPtr on;
    };

    Result<LockChange> set_range(const LockAsker& asker, const FileLock& lock);
    Result<LockChange> set_whole(const LockAsker& asker, FileLock::Kind kind);
    /// Sees to it that an owner's description can have the lock.
    static Result<void> prepare(Owner& owner, const LockAsker& asker, const FileLock& lock);
    /// What that owner (`whole`: that open file) has in a range is news: not to be taken back any more.
    void is_news(bool whole, std::uint64_t who, const FileLock& range);
    [[nodiscard]] bool is_closing(std::uint64_t handle, Clock::time_point now) const;

    std::unordered_map<std::uint64_t, Owner> owners_;
    std::unordered_map<std::uint64_t, Whole> wholes_;               ///< by handle
    std::unordered_map<std::uint64_t, Clock::time_point> closing_;  ///< handles of the above
    /// What may have to be taken back: as long as somebody has its LockChange.
    struct Change {
        bool whole = false;
        std::uint64_t who = 0;
        std::weak_ptr<LockRanges> left;
    };
    std::vector<Change> changes_;
};

}  // namespace tierfs
