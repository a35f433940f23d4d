// Names below a directory, resolved so that nothing leads out of it.
#pragma once

#include <sys/resource.h>
#include <sys/stat.h>

#include <chrono>
#include <string>

#include "backends/origin/origin.hpp"
#include "config/base/file_descriptor.hpp"
#include "config/base/result.hpp"

namespace tierfs {

/// Descriptors that files of users leave to the rest of the process, the control socket for one.
inline constexpr rlim_t kReservedDescriptors = 64;

/// The same descriptor; EMFILE and none if it is one of the last that the process may have (RLIMIT_NOFILE).
/// Locks leave a quarter, since they come beside files that are open.
FileDescriptor within_limit(FileDescriptor descriptor, bool is_for_locks = false);

/// openat2(2) below `root` without following any symlink; a final symlink is opened itself with O_PATH |
/// O_NOFOLLOW. `path` relative, "" is the root. EXDEV and ELOOP (a way out, a symlink on the way) come back
/// as ENOENT. ETIMEDOUT when the kernel asks to try again (a rename races; somebody holds a lease on the file
/// and `flags` has O_NONBLOCK) for longer than `patience`.
Result<FileDescriptor> open_beneath(int root, const std::string& path, int flags,
                                    std::chrono::milliseconds patience = std::chrono::seconds(10));

/// Attributes, and whether this is something that a dataset cannot hold (socket, pipe, device).
struct BeneathStat {
    Attributes attributes;
    bool is_special = false;
};

/// Attributes and version from what fstat(2) says.
BeneathStat to_attributes(const struct stat& status);

}  // namespace tierfs
