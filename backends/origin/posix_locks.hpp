// Locks on files of an origin, as fcntl(2) and flock(2) have them. backends/dir/ implements them,
// fs/readwrite/ asks.
#pragma once

#include <fcntl.h>
#include <sys/types.h>

#include <cstdint>

#include "backends/origin/posix_origin.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// A lock on a range of bytes, or what somebody wants to be locked. Plain value.
struct FileLock {
    enum class Kind : std::uint8_t { none, shared, exclusive };
    static constexpr std::uint64_t kEnd = INT64_MAX;  ///< however long the file becomes

    Kind kind = Kind::none;  ///< none: no lock; as a wish: let go
    std::uint64_t first = 0, last = kEnd;
    pid_t pid = 0;  ///< whose it is; -1: of a file description, that is, of nobody in particular

    /// Whether two owners cannot have both.
    [[nodiscard]] bool excludes(const FileLock& other) const {
        return first <= other.last && other.first <= last && kind != Kind::none && other.kind != Kind::none &&
               (kind == Kind::exclusive || other.kind == Kind::exclusive);
    }
    friend bool operator==(const FileLock&, const FileLock&) = default;
};

/// fcntl(2)'s structure with an absolute place (SEEK_SET), as the kernel hands it over; and back.
inline FileLock lock_of(const struct flock& from) {
    FileLock lock;
    if (from.l_type != F_UNLCK)
        lock.kind = from.l_type == F_RDLCK ? FileLock::Kind::shared : FileLock::Kind::exclusive;
    lock.first = static_cast<std::uint64_t>(from.l_start);
    lock.last = from.l_len == 0 ? FileLock::kEnd : lock.first + static_cast<std::uint64_t>(from.l_len) - 1;
    lock.pid = from.l_pid;
    return lock;
}

inline struct flock flock_of(const FileLock& lock) {
    struct flock to {};
    to.l_type = F_UNLCK;
    if (lock.kind != FileLock::Kind::none)
        to.l_type = lock.kind == FileLock::Kind::shared ? F_RDLCK : F_WRLCK;
    to.l_whence = SEEK_SET;
    to.l_start = static_cast<off_t>(lock.first);
    to.l_len = lock.last >= FileLock::kEnd ? 0 : static_cast<off_t>(lock.last - lock.first + 1);
    to.l_pid = lock.pid;
    return to;
}

/// An open file description of its own (open(2)), for locks and nothing else: they are the description's,
/// hold against everybody else's, and end with it. No call waits for a lock. Errors: EAGAIN: somebody else
/// has one that excludes it; else those of the file system (ENOLCK, EOPNOTSUPP, ENOSYS where it has no
/// locks). Calls of different threads must not overlap.
class PosixLocks {
  public:
    virtual ~PosixLocks() = default;
    /// Open file description locks, fcntl(2).
    virtual Result<void> set(const FileLock& lock) = 0;
    /// One that excludes this one; kind `none`: nothing does.
    virtual Result<FileLock> in_the_way(const FileLock& lock) = 0;
    /// flock(2). One that is changed is let go first, so that EAGAIN may leave none.
    virtual Result<void> set_whole(FileLock::Kind kind) = 0;
    /// Of the file, as it is now.
    virtual Result<PosixAttributes> attributes() = 0;
};

}  // namespace tierfs
