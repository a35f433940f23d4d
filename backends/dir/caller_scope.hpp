// As whom the calling thread acts for a moment.
#pragma once

#include <cstdint>

#include "backends/origin/posix_origin.hpp"

namespace tierfs {

/// Until the end of the scope, what this thread makes belongs to the caller: its file system ids
/// (setfsuid(2)) and its umask are the caller's. It keeps its capabilities, since the kernel has checked
/// permissions already, with groups that are not known here. A thread that was never in such a scope gets a
/// umask of its own first (unshare(2), CLONE_FS). Without privileges files belong to whom the process runs
/// as.
class CallerScope {
  public:
    explicit CallerScope(const Caller& caller);
    ~CallerScope();
    CallerScope(const CallerScope&) = delete;
    CallerScope& operator=(const CallerScope&) = delete;

  private:
    bool changed_ = false;
    std::uint32_t uid_ = 0, gid_ = 0;
};

/// Until the end of the scope this thread lacks CAP_FSETID: what it writes to, or cuts, loses its set-user-ID
/// and set-group-ID bits, as it does for those who write without privileges.
class PlainWriterScope {
  public:
    PlainWriterScope();
    ~PlainWriterScope();
    PlainWriterScope(const PlainWriterScope&) = delete;
    PlainWriterScope& operator=(const PlainWriterScope&) = delete;

  private:
    bool changed_ = false;
};

}  // namespace tierfs
