// Locks on files of this machine.
#include "backends/origin/posix_locks.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <string>
#include <utility>

#include "backends/dir/beneath.hpp"
#include "backends/dir/posix_directory.hpp"
#include "config/base/fault_point.hpp"

namespace tierfs {

namespace {

class OpenLocks final : public PosixLocks {
  public:
    OpenLocks(FileDescriptor file, std::shared_ptr<PosixCounters> counters)
        : file_(std::move(file)), counters_(std::move(counters)) {}

    Result<void> set(const FileLock& lock) override {
        auto wanted = request(lock);
        return check(TIERFS_FAULT_CALL("posix.lock", ::fcntl(file_.get(), F_OFD_SETLK, &wanted)), "locking");
    }

    Result<FileLock> in_the_way(const FileLock& lock) override {
        auto found = request(lock);
        if (auto asked = check(TIERFS_FAULT_CALL("posix.getlk", ::fcntl(file_.get(), F_OFD_GETLK, &found)),
                               "looking for locks");
            !asked)
            return fail(std::move(asked.error()));
        return lock_of(found);
    }

    Result<void> set_whole(FileLock::Kind kind) override {
        int operation = LOCK_UN;
        if (kind != FileLock::Kind::none) operation = kind == FileLock::Kind::shared ? LOCK_SH : LOCK_EX;
        return check(TIERFS_FAULT_CALL("posix.flock", ::flock(file_.get(), operation | LOCK_NB)), "flock");
    }

    Result<PosixAttributes> attributes() override {
        ++counters_->lookups;
        return posix_attributes(file_.get(), {});
    }

  private:
    static struct flock request(const FileLock& lock) {
        auto wanted = flock_of(lock);
        wanted.l_pid = 0;  // fcntl(2) wants it so
        return wanted;
    }
    Result<void> check(int result, const char* what) {
        ++counters_->others;
        if (result == 0) return {};
        const int code = errno == EACCES ? EAGAIN : errno;  // POSIX leaves the choice
        if (code != EAGAIN) ++counters_->errors;
        return fail(system_error(code, what));
    }

    const FileDescriptor file_;
    const std::shared_ptr<PosixCounters> counters_;
};

}  // namespace

// Not for writing unless it has to be: that would keep the file from being executed, and end leases on it.
Result<PosixLocksPtr> open_posix_locks(int file, bool for_writing, std::shared_ptr<PosixCounters> counters) {
    ++counters->others;
    const std::string name = "/proc/self/fd/" + std::to_string(file);
    constexpr int kFlags = O_CLOEXEC | O_NOCTTY;
    FileDescriptor opened(
        TIERFS_FAULT_CALL("posix.locks", ::open(name.c_str(), (for_writing ? O_RDWR : O_RDONLY) | kFlags)));
    // A daemon without privileges, and a file that it may write to but not read.
    if (!opened && for_writing && errno == EACCES) opened.reset(::open(name.c_str(), O_WRONLY | kFlags));
    opened = within_limit(std::move(opened), true);
    if (!opened) {
        const int code = errno;
        ++counters->errors;
        return fail(
            system_error(code == EMFILE || code == ENFILE ? ENOLCK : code, "opening a file for locks"));
    }
    return std::make_shared<OpenLocks>(std::move(opened), std::move(counters));
}

}  // namespace tierfs
