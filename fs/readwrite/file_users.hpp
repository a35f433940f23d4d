// Users of an open file.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "config/base/mutex.hpp"

namespace tierfs {

/// The processes that opened a file or wrote to it. A child closes what it inherited, and its close(2) is not
/// the end of a file that its parent is in the middle of writing. Thread-safe.
class FileUsers {
  public:
    /// `thread`: as the kernel names who sent a request; 0: of a namespace that cannot be seen from here.
    void add(pid_t thread) TIERFS_EXCLUDES(mutex_);
    /// Whether the thread's process is one of them. True where that cannot be told.
    bool has(pid_t thread) TIERFS_EXCLUDES(mutex_);
    /// Whether one of them has it open: see is_open_for_writing_by.
    bool have_open_for_writing(const std::string& device, std::uint64_t inode) TIERFS_EXCLUDES(mutex_);

  private:
    /// Of more threads than these nobody is told apart.
    static constexpr std::size_t kMost = 64;
    struct User {
        pid_t thread = 0, process = 0;
    };

    Mutex mutex_;
    std::vector<User> users_ TIERFS_GUARDED_BY(mutex_);
    bool is_anybody_ TIERFS_GUARDED_BY(mutex_) = false;
};

/// The process of a thread (Tgid of /proc/TID/status: proc(5)); 0: it is gone.
pid_t process_of(pid_t thread);

/// Whether the process of a thread, or one that descends from it, has a descriptor of a file open for writing
/// (fdinfo and mountinfo of proc(5)). `device`: "MAJOR:MINOR" of the file's file system; `inode`: its st_ino. False
/// where that cannot be told.
bool is_open_for_writing_by(pid_t thread, const std::string& device, std::uint64_t inode);

}  // namespace tierfs
