// A directory as an origin: a local one, or a kernel mount of NFS, Lustre, BeeGFS, Storage Scale.
#pragma once

#include <memory>
#include <string>

#include "backends/origin/origin.hpp"

namespace tierfs {

/// An Origin that reads below `path` (absolute) and nowhere else: names are resolved with
/// openat2(RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS), openat2(2), so that no symlink or ".." leads out. Symlinks
/// are shown and left to the kernel of who follows them; sockets, pipes and devices are hidden and counted.
///
/// The version of a file is its inode number, size, mtime and ctime; they are compared before and after every
/// read. Reads run on threads of its own, demand first. A file system that hangs (a dead NFS server on a hard
/// mount) holds the thread that asked it: no deadline can end a system call. ENOENT when `path` is absent,
/// ENOTDIR, EACCES; ENOSYS on a kernel before 5.6.
///
/// With a POSIX ACL the group bits shown are those of the owning group; what the ACL grants to named users
/// and groups is not carried over.
Result<std::unique_ptr<Origin>> open_directory_origin(const Settings& settings, const std::string& path);

}  // namespace tierfs
